// Text output for signal handlers: a fixed buffer and write(2), nothing else.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace farm {

class SafeWriter {
public:
    explicit SafeWriter(int fd) : fd_(fd) {}

    SafeWriter & text(const char * s) {
        while (*s != '\0') {
            put(*s++);
        }
        return *this;
    }

    // At least `width` digits.
    SafeWriter & decimal(int64_t value, int width = 1) {
        if (value < 0) {
            put('-');
        }
        return digits(value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value), 10, width);
    }

    SafeWriter & hex(uint64_t value, int width = 1) { return digits(value, 16, width); }

    void flush() {
        for (size_t done = 0; done < used_;) {
            const ssize_t n = write(fd_, buffer_ + done, used_ - done);
            if (n <= 0) {
                break;  // nobody is left to tell
            }
            done += static_cast<size_t>(n);
        }
        used_ = 0;
    }

private:
    SafeWriter & digits(uint64_t value, unsigned base, int width) {
        char reversed[32];
        int n = 0;
        do {
            reversed[n++] = "0123456789abcdef"[value % base];
            value /= base;
        } while (value != 0 || n < width);
        while (n > 0) {
            put(reversed[--n]);
        }
        return *this;
    }

    void put(char c) {
        if (used_ == sizeof(buffer_)) {
            flush();
        }
        buffer_[used_++] = c;
    }

    int fd_;
    size_t used_ = 0;
    char buffer_[2048];
};

}  // namespace farm
