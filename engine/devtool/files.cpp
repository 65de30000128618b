#include "files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <cstdlib>

namespace farm::devtool {

namespace {

constexpr size_t max_path = 4096;

int64_t nanoseconds(const timespec & time) { return static_cast<int64_t>(time.tv_sec) * 1000000000 + time.tv_nsec; }

bool one(const std::string & path, const Describe & describe) {
    JsonObject line;
    line.add("path", path);
    errno = 0;
    const bool ok = path.size() <= max_path ? describe(path, line) : (errno = ENAMETOOLONG, false);
    if (!ok) {
        const int error = errno;
        line = JsonObject();
        line.add("path", path).add("error", error).add("message", std::strerror(error));
    }
    std::printf("%s\n", line.str().c_str());
    std::fflush(stdout);
    return ok;
}

bool from_list(FILE * list, const Describe & describe) {
    bool ok = true;
    char * line = nullptr;
    size_t capacity = 0;
    for (ssize_t n; (n = getline(&line, &capacity, list)) > 0;) {
        const std::string path(line, static_cast<size_t>(line[n - 1] == '\n' ? n - 1 : n));
        ok = (path.empty() || one(path, describe)) && ok;
    }
    std::free(line);
    return ok;
}

}  // namespace

void add_stamp(JsonObject & line, const struct stat & info) {
    line.add("size", static_cast<int64_t>(info.st_size)).add("mtime_ns", nanoseconds(info.st_mtim));
    line.add("ctime_ns", nanoseconds(info.st_ctim)).add("inode", static_cast<uint64_t>(info.st_ino));
}

int for_each_file(const Arguments & arguments, const Describe & describe) {
    if (arguments.empty()) {
        return usage_error("no file named");
    }
    bool ok = true;
    for (size_t i = 0; i < arguments.size(); i++) {
        if (arguments[i] == "--") {
            continue;
        }
        if (arguments[i] != "--list-file") {
            ok = one(arguments[i], describe) && ok;
            continue;
        }
        if (++i == arguments.size()) {
            return usage_error("--list-file needs a file, or - for standard input");
        }
        const bool from_stdin = arguments[i] == "-";
        FILE * list = from_stdin ? stdin : std::fopen(arguments[i].c_str(), "re");
        if (list == nullptr) {
            return usage_error("cannot read the list " + arguments[i]);
        }
        ok = from_list(list, describe) && ok;
        if (!from_stdin) {
            std::fclose(list);
        }
    }
    return ok ? exit_ok : exit_failed;
}

}  // namespace farm::devtool
