// What this build is; the values come from CMakeLists.txt by way of build_config.h.
#pragma once

#include "build_config.h"

namespace farm {

constexpr const char * engine_name = "farm-engine";
constexpr const char * engine_version = FARM_ENGINE_VERSION;
constexpr const char * engine_abi = FARM_ENGINE_ABI;               // as Android names it
constexpr const char * engine_content_hash = FARM_ENGINE_CONTENT;  // of our sources and of the pinned ggml
constexpr const char * engine_flavour = FARM_ENGINE_FLAVOUR;
constexpr const char * engine_flags = FARM_ENGINE_FLAGS;
constexpr const char * engine_compiler =
#if defined(__clang__)
    "clang " __clang_version__;
#else
    "gcc " __VERSION__;
#endif

// Version of the event stream's format.
constexpr int event_stream_version = 1;

}  // namespace farm
