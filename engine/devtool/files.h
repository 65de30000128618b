// What `hash` and `stat` share: the list of files and the line about each.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>

#include "commands.h"
#include "json.h"

namespace farm::devtool {

// Size in bytes, times in ns since the epoch, inode: the stamp by which a farm tells that a file is still the same.
void add_stamp(JsonObject & line, const struct stat & info);

// Adds to `line` what is known of `path`, or returns false with errno set.
using Describe = std::function<bool(const std::string & path, JsonObject & line)>;

// Calls `describe` for every named file and prints a line for each; `{"path","error","message"}` where it failed.
int for_each_file(const Arguments & arguments, const Describe & describe);

}  // namespace farm::devtool
