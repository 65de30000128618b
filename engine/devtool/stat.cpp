// `stat`: the stamp of files without reading them. Follows links, as opening the file would.
#include <sys/stat.h>

#include "files.h"

namespace farm::devtool {

int stat_files(const Arguments & arguments) {
    return for_each_file(arguments, [](const std::string & path, JsonObject & line) {
        struct stat info {};
        if (stat(path.c_str(), &info) != 0) {
            return false;
        }
        add_stamp(line, info);
        line.add("mode", static_cast<int64_t>(info.st_mode & 07777)).add("regular", S_ISREG(info.st_mode));
        return true;
    });
}

}  // namespace farm::devtool
