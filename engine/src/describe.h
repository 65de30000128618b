// What this build is and can do, as JSON, for --describe and for the `hello` event.
#pragma once

#include <string>

namespace farm {

std::string build_json();
std::string describe_json();

}  // namespace farm
