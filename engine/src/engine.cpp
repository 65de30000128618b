// One run of the engine by its command line: every failure becomes an exit code and an `error` event.
#include "engine.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>

#include "backend.h"
#include "build_info.h"
#include "describe.h"
#include "errors.h"
#include "session.h"

namespace farm {

namespace {

void say_hello(Events & events, const Options & options) {
    struct stat info {};
    JsonObject model;
    const size_t slash = options.model.rfind('/');
    model.add("name", slash == std::string::npos ? options.model : options.model.substr(slash + 1));
    if (stat(options.model.c_str(), &info) == 0) {
        model.add("bytes", static_cast<int64_t>(info.st_size));
    } else {
        model.add_null("bytes");
    }
    model.add_null("params").add_null("weight_type").add("ctx", options.ctx);  // the `model` event knows them
    JsonObject fields;
    fields.add("engine", engine_name).add("version", engine_version).add_raw("build", build_json());
    fields.add("abi", engine_abi).add("pid", static_cast<int64_t>(getpid())).add("threads", options.threads);
    fields.add("start_monotonic_us", g_stream.start_us.load());
    events.emit("hello", fields.add_raw("model", model.str()));
}

// The error event must not fail for the same reason as the run.
void say_error(Events * events, int code, const char * name, const char * message) {
    std::fprintf(stderr, "farm-engine: error: %s\n", message);
    if (events == nullptr) {
        return;
    }
    const char * stage = g_stream.stage;
    JsonObject fields;
    fields.add("code", code).add("name", name);
    stage ? fields.add("stage", stage) : fields.add_null("stage");
    try {
        events->emit("error", fields.add("message", message));
    } catch (const std::exception &) {
        // The stream is gone; standard error has the message.
    }
}

int run(const Options & options, Events & events) {
    Faults faults(options.faults, std::getenv("FARM_ENGINE_FAULT"));
    say_hello(events, options);
    check_cpu();
    Session session(options, events, faults);
    session.load();
    session.run();
    return faults.final_exit_code().value_or(0);
}

}  // namespace

int engine_main(int argc, char ** argv) {
    std::unique_ptr<Events> events;
    int code = 0;
    try {
        events = std::make_unique<Events>(events_target(argc, argv));
        const Options options = parse_options(argc, argv);
        if (options.help || options.describe) {
            std::puts(options.help ? options_help().c_str() : describe_json().c_str());
            return 0;
        }
        code = run(options, *events);
    } catch (const EngineError & error) {
        code = static_cast<int>(error.code);
        say_error(events.get(), code, exit_code_name(error.code), error.what());
    } catch (const RequestedExit & exit) {
        code = exit.code;
        say_error(events.get(), code, "fault", "ended by the exit fault");
    } catch (const std::bad_alloc &) {
        code = static_cast<int>(ExitCode::out_of_memory);
        say_error(events.get(), code, "out_of_memory", "out of memory");
    } catch (const std::exception & error) {
        code = static_cast<int>(ExitCode::internal);
        say_error(events.get(), code, "internal", error.what());
    }
    try {
        if (events) {
            events->emit("bye", JsonObject().add("exit_code", code));
        }
    } catch (const EngineError & error) {
        code = static_cast<int>(error.code);
        say_error(nullptr, code, "io", error.what());
    }
    return code;
}

}  // namespace farm
