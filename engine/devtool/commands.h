// The subcommands of the device-side tool. Each prints JSON lines (`sample`: its own) and returns an exit code.
#pragma once

#include <string>
#include <vector>

namespace farm::devtool {

using Arguments = std::vector<std::string>;

// Exit codes: 0 ok, 1 some file could not be read (each is told in its own line), 2 usage.
constexpr int exit_ok = 0;
constexpr int exit_failed = 1;
constexpr int exit_usage = 2;

int hash_files(const Arguments & arguments);
int stat_files(const Arguments & arguments);
int probe_bandwidth(const Arguments & arguments);
int probe_cpu(const Arguments & arguments);
int sample_device(const Arguments & arguments);

// Says what is wrong on standard error; returns exit_usage.
int usage_error(const std::string & message);

}  // namespace farm::devtool
