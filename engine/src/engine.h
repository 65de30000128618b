// The engine as a function: what the program `farm-engine` runs, and an app in one of its threads.
#pragma once

namespace farm {

// Runs what the command line says and returns the exit code; throws nothing. At most one run at a time in a process.
int engine_main(int argc, char ** argv);

}  // namespace farm
