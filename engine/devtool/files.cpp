#include "files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>

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

bool from_list(std::istream & list, const Describe & describe) {
    bool ok = true;
    for (std::string path; std::getline(list, path);) {
        ok = (path.empty() || one(path, describe)) && ok;
    }
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
        if (arguments[i] == "-") {
            ok = from_list(std::cin, describe) && ok;
            continue;
        }
        std::ifstream list(arguments[i]);
        if (!list) {
            return usage_error("cannot read the list " + arguments[i]);
        }
        ok = from_list(list, describe) && ok;
    }
    return ok ? exit_ok : exit_failed;
}

}  // namespace farm::devtool
