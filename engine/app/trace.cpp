// Format of the trace: ART's Runtime::DumpForSigQuit (art/runtime/thread_list.cc, thread.cc, monitor.cc).
#include "trace.h"

#include <cxxabi.h>
#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "build_info.h"
#include "crash.h"
#include "symbols.h"

namespace farm::app {

namespace {

constexpr int max_frames = 48;

struct Known {
    std::string name;
    int number = 0;
    std::vector<const char *> calls;
    std::vector<const Monitor *> held;
    const Monitor * waits_for = nullptr;
};

std::mutex g_mutex;
std::map<int, Known> g_threads;  // by thread id
std::map<const Monitor *, int> g_owners;
int g_numbers = 0;

int thread_id() { return static_cast<int>(syscall(SYS_gettid)); }

// A stack that another thread asked for; one at a time.
uintptr_t g_pcs[max_frames];
int g_n_pcs = 0;
sem_t g_walked;

int stack_signal() { return SIGRTMIN + 3; }

void on_stack_signal(int, siginfo_t *, void * context) {
    const int before = errno;
    g_n_pcs = interrupted_stack(context, g_pcs, max_frames);
    sem_post(&g_walked);
    errno = before;
}

std::string demangled(const char * name) {
    int status = 0;
    char * text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
    std::string out = status == 0 && text != nullptr ? text : name;
    std::free(text);
    return out;
}

std::string native_stack(int tid) {
    g_n_pcs = 0;
    if (tid == thread_id() || syscall(SYS_tgkill, getpid(), tid, stack_signal()) != 0) {
        return "";
    }
    timespec limit{};
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 1;
    while (sem_timedwait(&g_walked, &limit) != 0) {
        if (errno != EINTR) {
            return "  (native stack not available: the thread did not answer)\n";
        }
    }
    std::ostringstream out;
    for (int i = 0; i < g_n_pcs; i++) {
        const Frame frame = describe_pc(i == 0 ? g_pcs[i] : g_pcs[i] - 1);
        char line[64];
        std::snprintf(line, sizeof(line), "  native: #%02d pc %016lx  ", i, static_cast<unsigned long>(frame.file_pc));
        out << line << (frame.in_executable ? own_path() : "<unknown>");
        if (frame.name != nullptr) {
            out << " (" << demangled(frame.name) << "+" << frame.offset << ")";
        }
        out << "\n";
    }
    return out.str();
}

// State letter, user and system ticks out of /proc/self/task/TID/stat.
struct Stat {
    char state = '?';
    long user = 0, system = 0;
};

Stat stat_of(int tid) {
    std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    Stat stat;
    std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
    std::string skip;
    fields >> stat.state;
    for (int i = 0; i < 10; i++) {
        fields >> skip;
    }
    fields >> stat.user >> stat.system;
    return stat;
}

std::string thread_name(int tid) {
    std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/comm");
    std::string name;
    std::getline(file, name);
    return name;
}

std::string monitor_text(const Monitor & monitor) {
    char text[160];
    std::snprintf(text, sizeof(text), "<0x%08x> (a %s)", monitor.id(), monitor.type());
    return text;
}

std::string managed_stack(const Known & known) {
    std::ostringstream out;
    for (auto call = known.calls.rbegin(); call != known.calls.rend(); ++call) {
        out << "  at " << *call << "\n";
        if (call != known.calls.rbegin()) {
            continue;
        }
        if (known.waits_for != nullptr) {
            const auto owner = g_owners.find(known.waits_for);
            out << "  - waiting to lock " << monitor_text(*known.waits_for);
            if (owner != g_owners.end()) {
                out << " held by thread " << g_threads[owner->second].number;
            }
            out << "\n";
        }
        for (const Monitor * held : known.held) {
            out << "  - locked " << monitor_text(*held) << "\n";
        }
    }
    return known.calls.empty() ? "  (no managed stack frames)\n" : out.str();
}

const char * state_word(const Known * known, char state) {
    if (known != nullptr && known->waits_for != nullptr) {
        return "Blocked";
    }
    return state == 'R' && known != nullptr && known->calls.empty() ? "Runnable" : "Native";
}

std::string thread_text(int tid) {
    const auto found = g_threads.find(tid);
    const Known * known = found == g_threads.end() ? nullptr : &found->second;
    const Stat stat = stat_of(tid);
    std::ostringstream out;
    out << '"' << (known != nullptr ? known->name : thread_name(tid)) << '"';
    if (known != nullptr) {
        out << " prio=5 tid=" << known->number << " " << state_word(known, stat.state) << "\n";
        out << "  | group=\"main\" sCount=1 ucsCount=0 flags=1 obj=0x7" << std::hex << (0x1000000 + tid) << std::dec
            << " self=0xb4000000" << tid << "\n";
    } else {
        out << " prio=10 (not attached)\n";
    }
    out << "  | sysTid=" << tid << " nice=0 cgrp=default sched=0/0 handle=0x0\n";
    out << "  | state=" << stat.state << " schedstat=( 0 0 0 ) utm=" << stat.user << " stm=" << stat.system
        << " core=0 HZ=" << sysconf(_SC_CLK_TCK) << "\n";
    out << "  | held mutexes=\n" << native_stack(tid);
    if (known != nullptr) {
        out << managed_stack(*known);
    }
    out << "\n";
    return out.str();
}

std::vector<int> all_threads() {
    std::vector<int> tids;
    if (DIR * folder = opendir("/proc/self/task")) {
        while (const dirent * entry = readdir(folder)) {
            if (entry->d_name[0] != '.') {
                tids.push_back(std::atoi(entry->d_name));
            }
        }
        closedir(folder);
    }
    std::sort(tids.begin(), tids.end());
    return tids;
}

std::string trace_text(const std::string & package) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    tm parts{};
    gmtime_r(&now.tv_sec, &parts);
    char moment[64];
    char head[160];
    std::strftime(moment, sizeof(moment), "%Y-%m-%d %H:%M:%S", &parts);
    std::snprintf(head, sizeof(head), "----- pid %d at %s.%09ld+0000 -----\n", getpid(), moment, now.tv_nsec);
    const std::vector<int> tids = all_threads();
    std::lock_guard<std::mutex> lock(g_mutex);
    std::ostringstream out;
    out << head << "Cmd line: " << package << "\nABI: '" << engine_abi << "'\n\nDALVIK THREADS (" << tids.size()
        << "):\n";
    for (const int tid : tids) {
        out << thread_text(tid);
    }
    out << "----- end " << getpid() << " -----\n";
    return out.str();
}

void write_trace(const std::string & package, const std::string & path) {
    const std::string part = path + ".part";
    std::ofstream file(part);
    file << trace_text(package);
    file.close();
    if (file.good()) {
        std::rename(part.c_str(), path.c_str());
    } else {
        std::remove(part.c_str());  // a full disk: no trace, and the system says so
    }
}

}  // namespace

Thread::Thread(const std::string & name) {
    std::lock_guard<std::mutex> lock(g_mutex);
    Known & known = g_threads[thread_id()];
    known.name = name;
    known.number = ++g_numbers;
}

Thread::~Thread() {
    std::lock_guard<std::mutex> lock(g_mutex);
    g_threads.erase(thread_id());
}

Call::Call(const char * frame) {
    std::lock_guard<std::mutex> lock(g_mutex);
    g_threads[thread_id()].calls.push_back(frame);
}

Call::~Call() {
    std::lock_guard<std::mutex> lock(g_mutex);
    g_threads[thread_id()].calls.pop_back();
}

void Monitor::enter() {
    if (pthread_mutex_trylock(&mutex_) != 0) {
        {
            std::lock_guard<std::mutex> lock(g_mutex);
            g_threads[thread_id()].waits_for = this;
        }
        pthread_mutex_lock(&mutex_);
    }
    std::lock_guard<std::mutex> lock(g_mutex);
    Known & known = g_threads[thread_id()];
    known.waits_for = nullptr;
    known.held.push_back(this);
    g_owners[this] = thread_id();
}

void Monitor::leave() {
    {
        std::lock_guard<std::mutex> lock(g_mutex);
        auto & held = g_threads[thread_id()].held;
        held.erase(std::remove(held.begin(), held.end(), this), held.end());
        g_owners.erase(this);
    }
    pthread_mutex_unlock(&mutex_);
}

void start_signal_catcher(const std::string & package, const std::string & path) {
    sem_init(&g_walked, 0, 0);
    struct sigaction action {};
    action.sa_sigaction = on_stack_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(stack_signal(), &action, nullptr);
    sigset_t quit;
    sigemptyset(&quit);
    sigaddset(&quit, SIGQUIT);
    pthread_sigmask(SIG_BLOCK, &quit, nullptr);
    std::thread([package, path, quit] {
        Thread me("Signal Catcher");
        for (int number = 0; sigwait(&quit, &number) == 0;) {
            write_trace(package, path);
        }
    }).detach();
}

}  // namespace farm::app
