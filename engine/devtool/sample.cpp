// `sample`: what the device's sensors and counters say, 1 to 10 times a second, as lines of text (the grammar is in
// farm/evidence/collect/samples.py, and the shell's loop there writes the same). It ends with its standard input, so that
// a lost connection leaves nothing running; lines on standard input name the processes whose memory is wanted.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "commands.h"
#include "signals.h"

namespace farm::devtool {

namespace {

constexpr double rollup_every_s = 5;
// Sampling must cost less than 1 % of a core: above that the rate is halved.
constexpr double most_cpu = 0.01;
constexpr double least_hz = 0.1;
constexpr double check_cost_s = 10;
constexpr size_t max_processes = 16;

double clock_s(clockid_t which) {
    timespec time{};
    clock_gettime(which, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Watched {
    std::string pid;
    double rollup_at = 0;
};

class Sampler {
public:
    Sampler(double hz, double seconds, const std::string & root)
        : hz_(hz), ends_at_(clock_s(CLOCK_MONOTONIC) + seconds), root_(root), found_(find_signals(root)) {}

    int run() {
        introduce();
        double next = clock_s(CLOCK_MONOTONIC);
        cost_from_ = next;
        cpu_from_ = clock_s(CLOCK_PROCESS_CPUTIME_ID);
        while (next < ends_at_) {
            sample();
            if (!flush()) {
                return exit_failed;
            }
            const double now = clock_s(CLOCK_MONOTONIC);
            mind_cost(now);
            next = std::max(next + 1 / hz_, now);
            if (!wait_until(next)) {
                break;
            }
        }
        return exit_ok;
    }

private:
    void introduce() {
        char line[100];
        std::snprintf(line, sizeof(line), "farm-samples 1 hz=%g page=%ld tick=%ld via=tool\n", hz_,
                      sysconf(_SC_PAGESIZE), sysconf(_SC_CLK_TCK));
        out_ += line;
        for (const Signal & signal : found_.signals) {
            out_ += "signal " + signal.kind + " " + signal.name + "\n";
        }
        for (const Fact & fact : found_.facts) {
            out_ += "fact " + fact.kind + " " + fact.name + " " + fact.value + "\n";
        }
        for (const Absence & absence : found_.absent) {
            out_ += "absent " + absence.kind + " " + absence.reason + "\n";
        }
    }

    void sample() {
        const std::string at = stamp();
        out_ += "at " + at;
        int fd = -1;
        std::string path;
        std::string text;
        for (const Signal & signal : found_.signals) {
            if (signal.fd != fd && signal.path != path) {  // two signals of one file are of one moment
                text = read_again(signal.fd);
                fd = signal.fd;
                path = signal.path;
            }
            out_ += " " + value_of(signal, text);
        }
        out_ += "\n";
        for (auto one = watched_.begin(); one != watched_.end();) {
            one = sample_process(*one, at) ? one + 1 : watched_.erase(one);
        }
    }

    static std::string stamp() {
        char text[32];
        std::snprintf(text, sizeof(text), "%.3f", clock_s(CLOCK_BOOTTIME));
        return text;
    }

    std::string process_file(const Watched & process, const char * name) const {
        const int fd = open((root_ + "/proc/" + process.pid + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            return "";
        }
        std::string text = read_again(fd);
        close(fd);
        return text;
    }

    bool sample_process(Watched & process, const std::string & at) {
        const std::string statm = process_file(process, "statm");
        const size_t blank = statm.find(' ');
        if (blank == std::string::npos || statm.compare(0, 2, "0 ") == 0) {  // a zombie has no memory
            out_ += "gone " + process.pid + "\n";
            return false;
        }
        out_ += "proc " + at + " " + process.pid + " " + statm.substr(blank + 1, statm.find(' ', blank + 1) - blank - 1) + "\n";
        const double began = clock_s(CLOCK_MONOTONIC);
        if (began >= process.rollup_at) {
            add_rollup(process, at);
            // The kernel walks every page for it: large processes are asked less often.
            process.rollup_at = began + std::max(rollup_every_s, (clock_s(CLOCK_MONOTONIC) - began) * 200);
        }
        return true;
    }

    void add_rollup(const Watched & process, const std::string & at) {
        const std::string text = process_file(process, "smaps_rollup");
        if (text.empty()) {
            return;
        }
        out_ += "rollup " + at + " " + process.pid;
        for (const char * key : {"Rss:", "Pss:", "Pss_Anon:", "Swap:"}) {
            out_ += " " + value_of(Signal{"", "", "", Take::field, key}, text);
        }
        out_ += "\n";
    }

    bool flush() {
        size_t done = 0;
        while (done < out_.size()) {
            const ssize_t count = write(STDOUT_FILENO, out_.data() + done, out_.size() - done);
            if (count < 0 && errno != EINTR) {
                return false;
            }
            done += count > 0 ? static_cast<size_t>(count) : 0;
        }
        out_.clear();
        return true;
    }

    void mind_cost(double now) {
        if (now - cost_from_ < check_cost_s) {
            return;
        }
        const double cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
        const double share = (cpu - cpu_from_) / (now - cost_from_);
        if (share > most_cpu && hz_ / 2 >= least_hz) {
            hz_ /= 2;
        }
        char line[80];
        std::snprintf(line, sizeof(line), "cost %.5f hz=%g\n", share, hz_);
        out_ += line;
        cost_from_ = now;
        cpu_from_ = cpu;
    }

    // False: standard input has ended.
    bool wait_until(double moment) {
        for (;;) {
            const double left = moment - clock_s(CLOCK_MONOTONIC);
            pollfd input{STDIN_FILENO, POLLIN, 0};
            const int ready = poll(&input, 1, left > 0 ? static_cast<int>(left * 1000 + 0.999) : 0);
            if (ready > 0) {
                char buffer[4096];
                const ssize_t count = read(STDIN_FILENO, buffer, sizeof(buffer));
                if (count <= 0) {
                    return false;
                }
                listen(std::string(buffer, static_cast<size_t>(count)));
            } else if (left <= 0) {
                return true;
            }
        }
    }

    void listen(const std::string & text) {
        asked_ += text;
        for (size_t end; (end = asked_.find('\n')) != std::string::npos; asked_.erase(0, end + 1)) {
            const std::string line = asked_.substr(0, end);
            const std::string pid = line.substr(std::min(line.size(), line.find(' ') + 1));
            const bool number = !pid.empty() && pid.size() < 10 && pid.find_first_not_of("0123456789") == std::string::npos;
            if (line.compare(0, 6, "watch ") == 0 && number && watched_.size() < max_processes) {
                watched_.push_back({pid});
            }
        }
        asked_.resize(std::min<size_t>(asked_.size(), 4096));
    }

    double hz_;
    double ends_at_;
    std::string root_;
    Inventory found_;
    std::vector<Watched> watched_;
    std::string out_;
    std::string asked_;
    double cost_from_ = 0;
    double cpu_from_ = 0;
};

}  // namespace

int sample_device(const Arguments & arguments) {
    double hz = 1;
    double seconds = 24 * 3600;
    std::string root;
    for (size_t i = 0; i < arguments.size(); i += 2) {
        const std::string value = i + 1 < arguments.size() ? arguments[i + 1] : "";
        char * end = nullptr;
        const double number = std::strtod(value.c_str(), &end);
        const bool whole = !value.empty() && *end == '\0';
        if (arguments[i] == "--hz" && whole && number >= least_hz && number <= 10) {
            hz = number;
        } else if (arguments[i] == "--seconds" && whole && number > 0 && number <= 30 * 24 * 3600) {
            seconds = number;
        } else if (arguments[i] == "--root" && !value.empty()) {
            root = value;
        } else {
            return usage_error("sample: '" + arguments[i] + " " + value + "' is not understood");
        }
    }
    return Sampler(hz, seconds, root).run();
}

}  // namespace farm::devtool
