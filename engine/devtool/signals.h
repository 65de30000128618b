// What can be sampled on this device: one open file per signal, read again and again at offset 0.
#pragma once

#include <string>
#include <vector>

namespace farm::devtool {

// How the value is taken out of the file's text.
enum class Take {
    word,   // the first word, cut where its number ends in something else ("12@800000000Hz" stays: the host reads it)
    line,   // the words of the first line behind the first one, joined with commas (/proc/stat)
    field,  // the word after the line that begins with `key` (/proc/meminfo, /proc/vmstat)
};

struct Signal {
    std::string kind;  // temp, freq, cap, …: what the host reads units from
    std::string name;
    std::string path;
    Take take = Take::word;
    std::string key;
    int fd = -1;
};

struct Fact {
    std::string kind, name, value;
};

struct Absence {
    std::string kind, reason;
};

struct Inventory {
    std::vector<Signal> signals;
    std::vector<Fact> facts;
    std::vector<Absence> absent;
};

// Looks once, below `root` (the tests' own /sys and /proc; empty: the device's). What can be opened stays open.
Inventory find_signals(const std::string & root);

// The text of an open file from its beginning, at most 16 KiB; empty when it cannot be read.
std::string read_again(int fd);

// The value for the stream: no blanks, at most 100 characters, "-" for what the file does not tell.
std::string value_of(const Signal & signal, const std::string & text);

}  // namespace farm::devtool
