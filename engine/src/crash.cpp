// Everything reachable from on_fatal_signal() is async-signal-safe: no allocation, no locks, no stdio. The one
// exception is the unwinder, used after the essentials have been written.
#include "crash.h"

#include <ggml.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>

#include "build_info.h"
#include "clock.h"
#include "demangle.h"
#include "events.h"
#include "safe_writer.h"
#include "symbols.h"

namespace farm {

namespace {

constexpr int max_frames = 64;

struct SignalName {
    int number;
    const char * name;
};

const SignalName fatal_signals[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGILL, "SIGILL"}, {SIGFPE, "SIGFPE"},
                                    {SIGABRT, "SIGABRT"}, {SIGTRAP, "SIGTRAP"}, {SIGSYS, "SIGSYS"}};

char g_abort_message[256];

const char * signal_name(int number) {
    for (const SignalName & signal : fatal_signals) {
        if (signal.number == number) {
            return signal.name;
        }
    }
    return "unknown";
}

const char * code_name(int signal, int code) {
    switch (code) {
        case SI_USER: return "SI_USER";
        case SI_TKILL: return "SI_TKILL";
        case SI_KERNEL: return "SI_KERNEL";
        default: break;
    }
    if (signal == SIGSEGV) {
        return code == SEGV_MAPERR ? "SEGV_MAPERR" : code == SEGV_ACCERR ? "SEGV_ACCERR" : "?";
    }
    if (signal == SIGILL) {
        return code == ILL_ILLOPN ? "ILL_ILLOPN" : code == ILL_ILLOPC ? "ILL_ILLOPC" : "?";
    }
    if (signal == SIGBUS) {
        return code == BUS_ADRERR ? "BUS_ADRERR" : code == BUS_ADRALN ? "BUS_ADRALN" : "?";
    }
    return signal == SIGFPE && code == FPE_INTDIV ? "FPE_INTDIV" : "?";
}

struct Registers {
    uintptr_t pc = 0, fp = 0, sp = 0;
};

Registers registers_of(const ucontext_t & context) {
#if defined(__x86_64__)
    const auto & g = context.uc_mcontext.gregs;
    return {static_cast<uintptr_t>(g[REG_RIP]), static_cast<uintptr_t>(g[REG_RBP]), static_cast<uintptr_t>(g[REG_RSP])};
#elif defined(__aarch64__)
    const auto & m = context.uc_mcontext;
    return {static_cast<uintptr_t>(m.pc), static_cast<uintptr_t>(m.regs[29]), static_cast<uintptr_t>(m.sp)};
#else
#error "no register names for this architecture"
#endif
}

// Reads memory that may not be there: the kernel answers with an error where a plain load would fault again.
bool read_words(uintptr_t address, uintptr_t * words, size_t count) {
    iovec local{words, count * sizeof(uintptr_t)};
    iovec remote{reinterpret_cast<void *>(address), count * sizeof(uintptr_t)};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(local.iov_len);
}

int walk_frame_pointers(const Registers & registers, uintptr_t * pcs) {
    int n = 0;
    pcs[n++] = registers.pc;
    uintptr_t fp = registers.fp;
    uintptr_t floor = registers.sp;
    uintptr_t words[2];  // caller's frame pointer, return address
    while (n < max_frames && fp >= floor && fp % sizeof(uintptr_t) == 0 && read_words(fp, words, 2) && words[1] != 0) {
        pcs[n++] = words[1];
        floor = fp + 1;
        fp = words[0];
    }
    return n;
}

struct Unwound {
    uintptr_t crash_pc;
    uintptr_t * pcs;
    int n;
};

_Unwind_Reason_Code on_unwound(_Unwind_Context * context, void * argument) {
    auto & found = *static_cast<Unwound *>(argument);
    const uintptr_t pc = _Unwind_GetIP(context);
    if (found.n > 0 || pc == found.crash_pc) {  // the handler's own frames come first and are left out
        found.pcs[found.n++] = pc;
    }
    return found.n < max_frames ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void write_frames(SafeWriter & out, const uintptr_t * pcs, int n) {
    out.text("\nbacktrace:\n");
    for (int i = 0; i < n; i++) {
        // A return address is the instruction behind the call; one back lies inside the caller.
        const Frame frame = describe_pc(i == 0 ? pcs[i] : pcs[i] - 1);
        out.text("      #").decimal(i, 2).text(" pc ").hex(frame.file_pc, 16).text("  ");
        out.text(frame.in_executable ? own_path() : "<unknown>");
        if (frame.name != nullptr) {
            out.text(" (");
            write_name(out, frame.name);
            out.text("+").decimal(static_cast<int64_t>(frame.offset)).text(")");
        }
        if (frame.in_executable && own_build_id()[0] != '\0') {
            out.text(" (BuildId: ").text(own_build_id()).text(")");
        }
        out.text("\n");
    }
    out.flush();
}

// Frame pointers never fail, but a C library built without them hides callers (of abort(), of pause()). The unwinder
// knows the way there and may itself break on a damaged stack: then the second fault writes what was found before.
uintptr_t g_frames[max_frames];
int g_n_frames = 0;

void write_backtrace(SafeWriter & out, const Registers & registers) {
    g_n_frames = walk_frame_pointers(registers, g_frames);
    static uintptr_t unwound_pcs[max_frames];
    Unwound found{registers.pc, unwound_pcs, 0};
    _Unwind_Backtrace(on_unwound, &found);
    const bool better = found.n > g_n_frames;
    const int n = better ? found.n : g_n_frames;
    g_n_frames = 0;
    write_frames(out, better ? unwound_pcs : g_frames, n);
}

#if defined(__x86_64__)
void write_registers(SafeWriter & out, const ucontext_t & context) {
    static const struct {
        const char * name;
        int index;
    } names[] = {{"rax", REG_RAX}, {"rbx", REG_RBX}, {"rcx", REG_RCX}, {"rdx", REG_RDX}, {"r8 ", REG_R8},
                 {"r9 ", REG_R9},  {"r10", REG_R10}, {"r11", REG_R11}, {"r12", REG_R12}, {"r13", REG_R13},
                 {"r14", REG_R14}, {"r15", REG_R15}, {"rdi", REG_RDI}, {"rsi", REG_RSI}, {"rbp", REG_RBP},
                 {"rsp", REG_RSP}, {"rip", REG_RIP}};
    for (size_t i = 0; i < std::size(names); i++) {
        out.text("    ").text(names[i].name).text(" ");
        out.hex(static_cast<uint64_t>(context.uc_mcontext.gregs[names[i].index]), 16);
        out.text(i % 4 == 3 || i + 1 == std::size(names) ? "\n" : "");
    }
}
#else
void write_registers(SafeWriter &, const ucontext_t &) {}
#endif

void write_tombstone(int signal, const siginfo_t & info, const ucontext_t & context) {
    char thread[17] = "";
    syscall(SYS_prctl, 16 /* PR_GET_NAME */, thread);
    SafeWriter out(STDERR_FILENO);
    out.text("*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***\n");
    out.text("ABI: '").text(engine_abi).text("'\n");
    out.text("Process uptime: ").decimal((monotonic_us() - g_stream.start_us) / 1000000).text("s\n");
    out.text("Cmdline: ").text(own_path()).text("\n");
    out.text("pid: ").decimal(getpid()).text(", tid: ").decimal(syscall(SYS_gettid));
    out.text(", name: ").text(thread).text("  >>> ").text(own_path()).text(" <<<\n");
    out.text("signal ").decimal(signal).text(" (").text(signal_name(signal)).text("), code ");
    out.decimal(info.si_code).text(" (").text(code_name(signal, info.si_code)).text("), fault addr ");
    // Only a fault of the hardware has an address; a signal that was sent has a sender there.
    if (info.si_code > 0 && info.si_code != SI_KERNEL) {
        out.text("0x").hex(reinterpret_cast<uintptr_t>(info.si_addr), 16).text("\n");
    } else {
        out.text("--------\n");
    }
    if (g_abort_message[0] != '\0') {
        out.text("Abort message: '").text(g_abort_message).text("'\n");
    }
    write_registers(out, context);
    out.flush();
    write_backtrace(out, registers_of(context));
}

void write_error_event(int signal) {
    const int fd = g_stream.fd;
    if (fd < 0) {
        return;
    }
    const char * stage = g_stream.stage;
    SafeWriter out(fd);
    out.text("{\"v\":1,\"seq\":").decimal(g_stream.next_seq.fetch_add(1));
    out.text(",\"t_us\":").decimal(monotonic_us() - g_stream.start_us);
    out.text(",\"ev\":\"error\",\"code\":").decimal(128 + signal).text(",\"name\":\"").text(signal_name(signal));
    out.text("\",\"stage\":");
    stage ? out.text("\"").text(stage).text("\"") : out.text("null");
    out.text(",\"message\":\"fatal signal ").decimal(signal).text(" (").text(signal_name(signal)).text(")\"}\n");
    out.flush();
}

void on_fatal_signal(int signal, siginfo_t * info, void * context) {
    static std::atomic<int> first{0};
    int none = 0;
    if (first.compare_exchange_strong(none, signal)) {
        // The event first: it is short, and a reader that waits for it must not depend on the long block.
        write_error_event(signal);
        write_tombstone(signal, *info, *static_cast<ucontext_t *>(context));
    } else if (g_n_frames > 0) {
        SafeWriter out(STDERR_FILENO);
        write_frames(out, g_frames, g_n_frames);
    }
    // Unblocked and with its default action: the process dies here, by the signal that came first.
    std::signal(first, SIG_DFL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, first);
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), first.load());
    sigprocmask(SIG_UNBLOCK, &only, nullptr);
}

void on_ggml_abort(const char * message) { std::strncpy(g_abort_message, message, sizeof(g_abort_message) - 1); }

[[noreturn]] void on_terminate() {
    std::strncpy(g_abort_message, "terminate: an exception was not caught", sizeof(g_abort_message) - 1);
    std::abort();
}

}  // namespace

int interrupted_stack(const void * context, uintptr_t * pcs, int limit) {
    uintptr_t found[max_frames];
    const int n = walk_frame_pointers(registers_of(*static_cast<const ucontext_t *>(context)), found);
    for (int i = 0; i < n && i < limit; i++) {
        pcs[i] = found[i];
    }
    return n < limit ? n : limit;
}

void install_crash_handler() {
    load_own_symbols();
    static char stack_memory[128 * 1024];
    stack_t stack{};
    stack.ss_sp = stack_memory;
    stack.ss_size = sizeof(stack_memory);
    sigaltstack(&stack, nullptr);
    struct sigaction action {};
    action.sa_sigaction = on_fatal_signal;
    // Not deferred: a fault of the handler itself must reach it again. Other threads that crash meanwhile end it all.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (const SignalName & signal : fatal_signals) {
        sigaction(signal.number, &action, nullptr);
    }
    std::signal(SIGPIPE, SIG_IGN);  // a reader that went away is an error of write(2), told as such
    ggml_set_abort_callback(on_ggml_abort);
    std::set_terminate(on_terminate);
}

}  // namespace farm
