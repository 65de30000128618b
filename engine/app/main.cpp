// An app whose instrumentation runs the reference engine in its own process, as apps do: for virtual devices, which run
// no bytecode. Its main thread is a message loop; the system's input events come on standard input, one `input N` a line,
// and are answered by `@ack N` on standard error. Standard output carries what the instrumentation reports: the engine's
// events, one JSON object a line, and `@finish CODE` at the end.
//
//   farm-app --package NAME --trace PATH [-e KEY VALUE]…
//
// Keys: model, prompt, prompt_tokens, n_predict, threads, ctx, seed, repeat, warmup, ignore_eos, fault (the engine's own
// options); block (lock, binder, inference, disk, idle: what keeps the main thread from its events) and block_s.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "clock.h"
#include "crash.h"
#include "engine.h"
#include "events.h"
#include "trace.h"

namespace farm::app {

namespace {

Monitor g_session("com.farm.bench.Session");
std::atomic<bool> g_begun{false};     // the worker has the session's monitor, or what the main thread waits for is there
std::atomic<int> g_result{-1};        // the engine's exit code; -1: not yet
int g_wake[2];                        // a byte: there is something to do

struct Settings {
    std::string package = "com.farm.bench";
    std::string trace;
    std::map<std::string, std::string> extras;

    std::string extra(const std::string & key, const std::string & otherwise) const {
        const auto found = extras.find(key);
        return found == extras.end() ? otherwise : found->second;
    }
    double block_s() const { return std::atof(extra("block_s", "12").c_str()); }
};

void say(int fd, const std::string & line) {
    if (write(fd, line.data(), line.size()) < 0) {
        _exit(1);  // the system is gone
    }
}

void sleep_s(double seconds) {
    timespec left{static_cast<time_t>(seconds), static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

int generate(const Settings & settings) {
    const Call call("com.farm.bench.Engine.nativeGenerate(Native method)");
    std::vector<std::string> words = {"farm-engine", "--events", "-"};
    for (const char * key : {"model", "prompt", "prompt_tokens", "n_predict", "threads", "ctx", "seed", "repeat", "warmup", "fault"}) {
        const std::string value = settings.extra(key, "");
        if (!value.empty()) {
            std::string option = std::string("--") + key;
            for (char & c : option) {
                c = c == '_' ? '-' : c;
            }
            words.push_back(option);
            words.push_back(value);
        }
    }
    if (settings.extra("ignore_eos", "") == "true") {
        words.emplace_back("--ignore-eos");
    }
    std::vector<char *> argv;
    for (std::string & word : words) {
        argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    return engine_main(static_cast<int>(words.size()), argv.data());
}

void wake() { say(g_wake[1], "w"); }

// ---- the instrumentation's thread

void instrument(const Settings & settings) {
    const Thread me("Instr: com.farm.bench.BenchInstrumentation");
    prctl(PR_SET_NAME, "Instr: com.farm");
    const Call start("com.farm.bench.BenchInstrumentation.onStart(BenchInstrumentation.java:52)");
    const std::string block = settings.extra("block", "");
    if (block == "inference") {
        g_begun = true;
        wake();  // the main thread does it
        return;
    }
    if (block == "lock") {
        const Call save("com.farm.bench.Session.run(Session.java:118)");
        g_session.enter();
        g_begun = true;
        const int code = generate(settings);
        sleep_s(settings.block_s());
        g_session.leave();
        g_result = code;
    } else {
        g_begun = true;
        const int code = generate(settings);
        if (!block.empty()) {
            sleep_s(settings.block_s());
        }
        g_result = code;
    }
    wake();
}

// ---- the main thread

// A service in another process that takes its time; the caller waits for its answer.
void call_service(double seconds) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        return;
    }
    const pid_t peer = fork();
    if (peer == 0) {
        close(ends[0]);
        prctl(PR_SET_NAME, "binder:service");
        prctl(PR_SET_PDEATHSIG, 9);
        sleep_s(seconds);
        _exit(write(ends[1], "r", 1) == 1 ? 0 : 1);
    }
    close(ends[1]);
    const Call proxy("com.farm.bench.IModelService$Stub$Proxy.warmUp(IModelService.java:211)");
    const Call transact("android.os.BinderProxy.transact(BinderProxy.java:684)");
    const Call native("android.os.BinderProxy.transactNative(Native method)");
    char reply = 0;
    while (read(ends[0], &reply, 1) < 0 && errno == EINTR) {
    }
    close(ends[0]);
}

// A file whose bytes do not come: the reader waits in read(2), as on a disk that is busy or broken.
void read_slow_file(const Settings & settings) {
    const std::string path = settings.trace + ".slow";
    mkfifo(path.c_str(), 0600);
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    std::thread writer([&] {
        sleep_s(settings.block_s());
        say(fd, "x");
    });
    const Call load("com.farm.bench.Settings.load(Settings.java:73)");
    const Call stream("java.io.FileInputStream.read(FileInputStream.java:313)");
    const Call io("libcore.io.Linux.readBytes(Native method)");
    char byte = 0;
    while (read(fd, &byte, 1) < 0 && errno == EINTR) {
    }
    writer.join();
    close(fd);
    unlink(path.c_str());
}

// What the event's handler does; each way really keeps the thread.
void on_click(const Settings & settings) {
    const Call click("com.farm.bench.MainActivity.onClick(MainActivity.java:41)");
    const std::string block = settings.extra("block", "");
    if (block == "lock") {
        const Call status("com.farm.bench.Session.status(Session.java:88)");
        g_session.enter();
        g_session.leave();
    } else if (block == "binder") {
        call_service(settings.block_s());
    } else if (block == "disk") {
        read_slow_file(settings);
    } else if (block == "inference") {
        const int code = generate(settings);
        g_result = code;
    }
}

int loop(const Settings & settings) {
    const Call zygote("com.android.internal.os.ZygoteInit.main(ZygoteInit.java:936)");
    const Call main("android.app.ActivityThread.main(ActivityThread.java:8177)");
    const Call looper("android.os.Looper.loop(Looper.java:288)");
    bool clicked = settings.extra("block", "").empty();
    std::string input;
    while (g_result < 0) {
        pollfd files[2] = {{STDIN_FILENO, POLLIN, 0}, {g_wake[0], POLLIN, 0}};
        {
            const Call queue("android.os.MessageQueue.nativePollOnce(Native method)");
            if (poll(files, 2, -1) < 0) {
                continue;
            }
        }
        char buffer[512];
        if (files[1].revents != 0 && read(g_wake[0], buffer, sizeof(buffer)) < 0) {
            return 1;
        }
        if (files[0].revents != 0) {
            const ssize_t count = read(STDIN_FILENO, buffer, sizeof(buffer));
            if (count <= 0) {
                return 1;  // the system is gone
            }
            input.append(buffer, static_cast<size_t>(count));
        }
        for (size_t end; (end = input.find('\n')) != std::string::npos; input.erase(0, end + 1)) {
            const Call dispatch("android.view.InputEventReceiver.dispatchInputEvent(InputEventReceiver.java:295)");
            if (settings.extra("block", "") == "idle") {
                continue;  // its window takes no input: the loop is idle, and the event stays unanswered
            }
            if (!clicked && g_begun) {
                clicked = true;
                on_click(settings);
            }
            if (input.compare(0, 6, "input ") == 0) {
                say(STDERR_FILENO, "@ack " + input.substr(6, end - 6) + "\n");
            }
        }
    }
    return 0;
}

int run(const Settings & settings) {
    g_stream.start_us = monotonic_us();
    prctl(PR_SET_NAME, settings.package.substr(settings.package.size() > 15 ? settings.package.size() - 15 : 0).c_str());
    install_crash_handler();
    const Thread me("main");
    start_signal_catcher(settings.package, settings.trace);
    if (pipe2(g_wake, O_CLOEXEC) != 0) {
        return 1;
    }
    std::thread(instrument, settings).detach();
    const int broken = loop(settings);
    say(STDOUT_FILENO, "@finish " + std::to_string(broken != 0 ? broken : g_result.load()) + "\n");
    _exit(0);
}

}  // namespace

}  // namespace farm::app

int main(int argc, char ** argv) {
    farm::app::Settings settings;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string word = argv[i];
        if (word == "--package") {
            settings.package = argv[i + 1];
        } else if (word == "--trace") {
            settings.trace = argv[i + 1];
        } else if (word == "-e" && i + 2 < argc) {
            settings.extras[argv[i + 1]] = argv[i + 2];
            i++;
        } else {
            std::fprintf(stderr, "farm-app: '%s' is not understood\n", word.c_str());
            return 2;
        }
    }
    return farm::app::run(settings);
}
