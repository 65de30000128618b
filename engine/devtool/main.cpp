// farm-devtool: what a farm has to ask a device from the inside. One subcommand per file.
#include <cstdio>

#include "commands.h"

namespace farm::devtool {

namespace {

constexpr const char * usage =
    "usage:\n"
    "  farm-devtool hash FILE…  | --list-file FILE|-     size, times, inode and SHA-256 of each file\n"
    "  farm-devtool stat FILE…  | --list-file FILE|-     the same without reading the content\n"
    "  farm-devtool probe membw [--seconds S] [--threads T] [--mb M]   memory bandwidth\n"
    "  farm-devtool probe cpu                            CPU features, cores, page size\n"
    "  farm-devtool sample [--hz H] [--seconds S] [--root DIR]         sensors, clocks, load, memory, until stdin ends\n";

int dispatch(Arguments words) {
    if (words.empty() || words[0] == "--help") {
        std::fputs(usage, words.empty() ? stderr : stdout);
        return words.empty() ? exit_usage : exit_ok;
    }
    std::string command = words[0];
    words.erase(words.begin());
    if (command == "probe" && !words.empty()) {
        command += " " + words[0];
        words.erase(words.begin());
    }
    const struct {
        const char * name;
        int (*run)(const Arguments &);
    } commands[] = {{"hash", hash_files}, {"stat", stat_files}, {"probe membw", probe_bandwidth}, {"probe cpu", probe_cpu},
                  {"sample", sample_device}};
    for (const auto & entry : commands) {
        if (command == entry.name) {
            return entry.run(words);
        }
    }
    return usage_error("unknown command '" + command + "'");
}

}  // namespace

int usage_error(const std::string & message) {
    std::fprintf(stderr, "farm-devtool: error: %s\n%s", message.c_str(), usage);
    return exit_usage;
}

}  // namespace farm::devtool

int main(int argc, char ** argv) { return farm::devtool::dispatch({argv + 1, argv + argc}); }
