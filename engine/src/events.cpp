#include "events.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "clock.h"
#include "errors.h"

namespace farm {

StreamState g_stream;

namespace {

constexpr int64_t silence_limit_us = 1000000;

void write_all(int fd, const std::string & line) {
    size_t done = 0;
    while (done < line.size()) {
        const ssize_t n = write(fd, line.data() + done, line.size() - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            // Closed first: reporting this very error must not try the stream again.
            g_stream.fd = -1;
            throw EngineError(ExitCode::io, std::string("cannot write the event stream: ") + std::strerror(errno));
        }
        done += static_cast<size_t>(n);
    }
}

}  // namespace

Events::Events(const std::string & target) {
    last_us_ = monotonic_us();
    if (target == "-") {
        to_stdout_ = true;
        g_stream.fd = STDOUT_FILENO;
    } else if (!target.empty()) {
        const int fd = open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0) {
            throw EngineError(ExitCode::io, "cannot open the event file " + target + ": " + std::strerror(errno));
        }
        g_stream.fd = fd;
    }
}

Events::~Events() {
    const int fd = g_stream.fd.exchange(-1);
    if (fd > STDERR_FILENO) {
        close(fd);
    }
}

void Events::emit(const char * kind, const JsonObject & fields) {
    last_us_ = monotonic_us();
    if (g_stream.fd < 0) {
        return;
    }
    JsonObject head;
    head.add("v", 1).add("seq", g_stream.next_seq.fetch_add(1)).add("t_us", last_us_ - g_stream.start_us);
    std::string line = head.add("ev", kind).str();
    const std::string body = fields.str();
    line.pop_back();
    line += body.size() > 2 ? "," : "";
    line.append(body, 1, std::string::npos);
    line += '\n';
    write_all(g_stream.fd, line);
}

void Events::set_progress(int64_t done, int64_t of) {
    done_ = done;
    of_ = of;
}

void Events::tick() {
    const char * stage = g_stream.stage;
    const int64_t now = monotonic_us();
    if (stage == nullptr || now - last_us_ < silence_limit_us) {
        return;
    }
    JsonObject fields;
    fields.add("stage", stage).add("iteration", g_stream.iteration).add("elapsed_us", now - stage_begin_us_);
    fields.add("done", done_);
    of_ < 0 ? fields.add_null("of") : fields.add("of", of_);
    emit("progress", fields);
}

}  // namespace farm
