// `hash`: stamp and SHA-256 of files. A file that changes while it is read is reported, never hashed in silence.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "files.h"
#include "sha256.h"

namespace farm::devtool {

namespace {

constexpr size_t block_size = 1 << 20;

struct Descriptor {
    int fd;
    ~Descriptor() { close(fd); }
};

bool same(const timespec & a, const timespec & b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

bool hash_one(const std::string & path, JsonObject & line) {
    // Non-blocking: a named pipe must not hold the tool for ever. It has no meaning for regular files.
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    const Descriptor descriptor{fd};
    struct stat before {}, after {};
    if (fstat(fd, &before) != 0) {
        return false;
    }
    if (!S_ISREG(before.st_mode)) {
        errno = S_ISDIR(before.st_mode) ? EISDIR : EINVAL;
        return false;
    }
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    static const std::unique_ptr<char[]> buffer(new char[block_size]);
    Sha256 sha;
    for (;;) {
        const ssize_t n = read(fd, buffer.get(), block_size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return false;
        }
        if (n == 0) {
            break;
        }
        sha.update(buffer.get(), static_cast<size_t>(n));
    }
    if (fstat(fd, &after) != 0) {
        return false;
    }
    if (after.st_size != before.st_size || !same(after.st_mtim, before.st_mtim)) {
        errno = ESTALE;
        return false;
    }
    add_stamp(line, after);
    line.add("sha256", sha.hex());
    return true;
}

}  // namespace

int hash_files(const Arguments & arguments) { return for_each_file(arguments, hash_one); }

}  // namespace farm::devtool
