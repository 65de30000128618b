// `probe membw`: memory bandwidth by copy (a = b) and triad (a = b + s·c) over arrays far larger than the caches, in
// the manner of McCalpin's STREAM. GB/s count the bytes that the loop names (2 or 3 words per element); lines that the
// CPU fetches only to overwrite them are not counted. One figure per repetition: the reader judges the spread.
#include <pthread.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <new>
#include <thread>

#include "commands.h"
#include "json.h"

namespace farm::devtool {

namespace {

double now_s() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Settings {
    double seconds = 1.0;  // of measuring, both kernels together
    int threads = 1;
    int mb = 64;  // per array
};

struct Arrays {
    double *a, *b, *c;
    size_t n;
};

enum class Kernel { copy, triad };

void run_slice(Kernel kernel, const Arrays & arrays, size_t begin, size_t end) {
    double * __restrict a = arrays.a;
    const double * __restrict b = arrays.b;
    const double * __restrict c = arrays.c;
    if (kernel == Kernel::copy) {
        for (size_t i = begin; i < end; i++) {
            a[i] = b[i];
        }
    } else {
        for (size_t i = begin; i < end; i++) {
            a[i] = b[i] + 3.0 * c[i];
        }
    }
    __asm__ volatile("" : : "r"(a) : "memory");  // the stores are wanted though nobody reads them
}

// Threads that live through all repetitions, so that starting them is not measured.
class Team {
public:
    Team(const Arrays & arrays, int threads) : arrays_(arrays), threads_(threads) {
        pthread_barrier_init(&barrier_, nullptr, static_cast<unsigned>(threads));
        for (int i = 1; i < threads; i++) {
            workers_.emplace_back([this, i] {
                while (pthread_barrier_wait(&barrier_), !stop_) {
                    work(i);
                    pthread_barrier_wait(&barrier_);
                }
            });
        }
    }

    ~Team() {
        stop_ = true;
        pthread_barrier_wait(&barrier_);
        for (std::thread & worker : workers_) {
            worker.join();
        }
        pthread_barrier_destroy(&barrier_);
    }

    // Seconds of one pass.
    double pass(Kernel kernel) {
        kernel_ = kernel;
        const double begin = now_s();
        pthread_barrier_wait(&barrier_);
        work(0);
        pthread_barrier_wait(&barrier_);
        return now_s() - begin;
    }

private:
    void work(int thread) const {
        const size_t slice = arrays_.n / static_cast<size_t>(threads_);
        const size_t begin = slice * static_cast<size_t>(thread);
        run_slice(kernel_, arrays_, begin, thread + 1 == threads_ ? arrays_.n : begin + slice);
    }

    Arrays arrays_;
    int threads_;
    Kernel kernel_ = Kernel::copy;
    bool stop_ = false;
    pthread_barrier_t barrier_{};
    std::vector<std::thread> workers_;
};

std::string measure(Team & team, Kernel kernel, size_t bytes, double seconds) {
    // Passes before the clock counts: pages are there and the CPU has left its idle frequency.
    for (double warm = now_s() + seconds / 4; now_s() < warm;) {
        team.pass(kernel);
    }
    std::vector<std::string> figures;
    for (const double end = now_s() + seconds; figures.size() < 3 || (now_s() < end && figures.size() < 1000);) {
        char text[32];
        std::snprintf(text, sizeof(text), "%.3f", static_cast<double>(bytes) / team.pass(kernel) / 1e9);
        figures.emplace_back(text);
    }
    return json_array(figures);
}

bool parse_number(const std::string & text, double min, double max, double & value) {
    char * end = nullptr;
    value = std::strtod(text.c_str(), &end);
    return !text.empty() && *end == '\0' && value >= min && value <= max;
}

}  // namespace

int probe_bandwidth(const Arguments & arguments) {
    Settings settings;
    for (size_t i = 0; i < arguments.size(); i += 2) {
        const std::string value = i + 1 < arguments.size() ? arguments[i + 1] : "";
        double number = 0;
        if (arguments[i] == "--seconds" && parse_number(value, 0.01, 600, number)) {
            settings.seconds = number;
        } else if (arguments[i] == "--threads" && parse_number(value, 1, 256, number)) {
            settings.threads = static_cast<int>(number);
        } else if (arguments[i] == "--mb" && parse_number(value, 1, 4096, number)) {
            settings.mb = static_cast<int>(number);
        } else {
            return usage_error("probe membw: '" + arguments[i] + " " + value + "' is not understood");
        }
    }
    const size_t n = static_cast<size_t>(settings.mb) * (1 << 20) / sizeof(double);
    std::unique_ptr<double[]> memory(new (std::nothrow) double[3 * n]);
    if (!memory) {
        std::fprintf(stderr, "farm-devtool: error: no memory for three arrays of %d MB; use --mb\n", settings.mb);
        return exit_failed;
    }
    for (size_t i = 0; i < 3 * n; i++) {
        memory[i] = static_cast<double>(i % 7);
    }
    const Arrays arrays{memory.get(), memory.get() + n, memory.get() + 2 * n, n};
    Team team(arrays, settings.threads);
    JsonObject line;
    line.add("probe", "membw").add("unit", "GB/s").add("threads", settings.threads).add("array_mb", settings.mb);
    line.add_raw("copy", measure(team, Kernel::copy, 2 * n * sizeof(double), settings.seconds / 2));
    line.add_raw("triad", measure(team, Kernel::triad, 3 * n * sizeof(double), settings.seconds / 2));
    std::printf("%s\n", line.str().c_str());
    return exit_ok;
}

}  // namespace farm::devtool
