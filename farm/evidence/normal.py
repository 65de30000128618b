"""Texts and stack frames without what differs from one time to the next: addresses, numbers, sizes, paths, builds.

`message` is for what a program says, `frames` for a stack. Two accounts of one fault become the same text whatever
device, process number, load address, installation folder or build they come from. A number that names a fault (error
codes, signals) stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_TEXT = 600
MAX_FRAMES = 96

#: What differs from time to time, and stands for nothing; all of it becomes `#`.
_FLEETING = re.compile(
    "|".join(
        (
            r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b",
            r"\b(?:\d{4}-)?\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?[+-]\d{4}|Z)?",
            r"\b[0-9a-f]{4,12}(?= (?:u\d{1,3} )?[A-Za-z]\w*(?:\.\w+)+/)",  # a window or record before its component
            r"\bu\d{1,4}(?:_?[ai]\d{1,6})?\b",
            r"(?<=[@{])[0-9a-f]{4,16}\b",
            r"\b0[xX][0-9a-fA-F]{1,16}\b",
            r"\b(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{6,64}\b",
            r"(?<![\w.])-?\d{1,18}(?:\.\d{1,9})? ?(?:[kKMGT]i?B|[kMG]b|bytes?|B|pages?|tokens?)\b",
            r"(?<![\w.])-?\d{1,18}(?:\.\d{1,9})? ?(?:ns|us|µs|ms|s|sec|seconds?|minutes?|°C|%|Hz|MHz)(?!\w)",
        )
    )
)
#: A number that says which fault it is.
_CODE = re.compile(
    r"((?:\b[Ee]rr(?:or|no)?|\bcode|\bstatus|\bresult|\bret(?:urned)?|\bsignal|\breason|[Ee]rror ?[Cc]ode)"
    r"[ :=#(]{1,4}(?:-?\d{1,6}|0x[0-9a-fA-F]{1,3}))(?![\w.])"
)
_NUMBER = re.compile(r"(?<![\w#])-?\d+(?:[.,]\d+)*")
_PATH = re.compile(r"(?<![\w.<])(?:[A-Za-z]:)?(?:[\\/][\w.+~=@%\-]{1,160}){2,40}[\\/]?")


def message(text: str) -> str:
    """One line, at most `MAX_TEXT` characters; empty for an empty text."""
    line = _PATH.sub(_base, " ".join(text[: 4 * MAX_TEXT].split()))
    parts = _CODE.split(line)  # every second one is a code, and stays
    parts[::2] = [_NUMBER.sub("#", _FLEETING.sub("#", part)) for part in parts[::2]]
    return "".join(parts).strip(" .'\"")[:MAX_TEXT]


def _base(match: re.Match[str]) -> str:
    """The last part of a path: what lies above it differs from one installation to the next."""
    return re.split(r"[\\/]", match[0].rstrip("\\/"))[-1]


_NATIVE = re.compile(r"#\d{1,3}\s+pc (?:0x)?[0-9a-fA-F]{1,16}\s*(.*)$")
_JAVA = re.compile(r"^(?:at )?([\w.$<>\-/]+(?:\.[\w$<>\-]+)+) ?(?:\(.*)?$")
_BUILD = re.compile(r" ?\((?:BuildId|offset|deleted).*?\)|\(deleted\)")
#: `symbol (library)`, as the readers of thread dumps give a frame back.
_WORDS = re.compile(r"^(.{1,400}?) \(((?:/|\[|<)?[\w./+~=@%:!\-]+(?:\.so\S*|\.oat|\.apk\S*|\])?)\)$")
_NOISE_LIBRARY = re.compile(
    r"^(?:libart\w*|libartbase|libsigchain|libc\+\+abi|libdebuggerd\w*|linker(?:64)?|libclang_rt\.\S+|libnativehelper"
    r"|libandroid_runtime|libhoudini|libndk_translation|libnb|boot(?:-\S+)?|\[vdso\]|\[?vectors\]?"
    r"|libxcrash\w*|libbreakpad\w*|libcrashlytics\S*|libbugly\w*|libcrashsdk|libsentry\S*|libapminsight\w*|libnpth\w*"
    r"|libmi(?:ui)?\w*hook\w*|libpenguin|libshook\w*|libriru\w*|liblspd|app_process\w*|jit-cache|dalvik-jit-\S+)$"
)
_NOISE_SYMBOL = re.compile(
    r"^(?:abort|raise|t?g?kill|syscall|pthread_kill|__?libc_(?:fatal\w*|init|start_main)|async_safe_fatal\w*"
    r"|__fortify_\w+|__stack_chk_fail|__assert2?|__android_log_\w+|android_set_abort_message|__pthread_start\w*"
    r"|__start_thread|_start\w*|main|start_thread|clone|__cxa_(?:throw|rethrow|bad_cast|pure_virtual)"
    r"|__gxx_personality\w*|_Unwind_\w+|std::(?:__\w+::)?(?:terminate|__terminate|unexpected|__throw_\w+)"
    r"|demangling_(?:terminate|unexpected)_handler|abort_message|operator (?:new|delete).*|scudo::.*|je_\w+"
    r"|__?(?:futex_wait\w*|ioctl|epoll_p?wait|ppoll|rt_sigsuspend|nanosleep|pthread_cond_\w*wait)|ioctl|poll|usleep"
    r"|(?:__)?pthread_(?:cond_(?:timed)?wait|mutex_lock|rwlock_\w+)|NonPI::MutexLock\w*|nanosleep|epoll_p?wait"
    r"|android::(?:IPCThreadState|BpBinder|Looper|NativeMessageQueue)::.*|(?:__)?(?:malloc|calloc|realloc|free|memalign)|fdsan_error|__kernel_rt_sigreturn|\?+|<unknown>"
    r"|_?_?restore_rt|art_quick_\w+|art::.*|ExecuteMterp\w*|nterp_\w+|android::AndroidRuntime::.*"
    r"|logging::LogMessage::.*|android::base::(?:DefaultAborter|LogMessage|SetAborter).*"
    r"|google::(?:LogMessage|LogDestination).*|ggml_abort|ggml_print_backtrace\w*)$"
)
_NOISE_JAVA = re.compile(
    r"^(?:java\.lang\.reflect\.|java\.lang\.Thread\.run$|java\.lang\.(?:Runtime|System)\.load"
    r"|dalvik\.system\.|android\.os\.(?:Looper|Handler|MessageQueue|HwLooper|AsyncTask\$)"
    r"|android\.app\.(?:ActivityThread|Instrumentation|LoadedApk|servertransaction)\b|com\.android\.internal\.os\.(?:Zygote|RuntimeInit)"
    r"|java\.util\.concurrent\.(?:ThreadPoolExecutor|FutureTask\.run|Executors)"
    r"|com\.(?:miui|xiaomi|oppo|oplus|coloros|heytap|vivo|bbk|huawei|hihonor|samsung\.android|mediatek|transsion|meizu"
    r"|oneplus|lge|zte|nubia)\.|miui\.|vivo\.|huawei\.|mediatek\.|de\.robv\.android\.xposed\.|me\.weishu\."
    r"|java\.lang\.(?:Object\.wait|Thread\.(?:sleep|join|park))|(?:jdk\.internal|sun)\.misc\.Unsafe\.park"
    r"|java\.util\.concurrent\.locks\.|android\.os\.BinderProxy\.|java\.lang\.VMThread|jdk\.internal\.reflect\.|sun\.reflect\.)"
)


def frames(lines: Iterable[str], most: int = 4) -> tuple[str, ...]:
    """The innermost frames that are the program's own: `library!function`, or `package.Class.method`.

    Runtime, crash reporters, vendors' hooks and what every stack begins with are passed over. Frames of a library
    without symbols are told by the library, once in a row. Where all is noise, the noise itself stands.
    """
    own: list[str] = []
    rest: list[str] = []
    for line in list(lines)[:MAX_FRAMES]:
        name, noise = _frame(line)
        into = rest if noise else own
        if name and (not into or into[-1] != name):
            into.append(name)
    return tuple((own or rest)[:most])


def _frame(line: str) -> tuple[str, bool]:
    """(name, whether it is noise)."""
    text = _BUILD.sub("", line.strip().removeprefix("native: "))
    if match := _NATIVE.search(text):
        return _native(match[1].strip())
    if (words := _WORDS.match(text)) and not re.search(r"\.(?:java|kt)\b|^(?:Native|Unknown|SourceFile)", words[2]):
        return _join(_library(words[2]), _symbol(words[1]))
    if match := _JAVA.match(text):
        name = _method(match[1])
        return name, bool(_NOISE_JAVA.match(name))
    return _symbol(text.split(" (")[0]), False


def _native(rest: str) -> tuple[str, bool]:
    where, _, symbol = rest.partition(" (")
    return _join(_library(where), _symbol(symbol.rstrip(" )") if symbol.count("(") < symbol.count(")") else symbol))


def _join(library: str, symbol: str) -> tuple[str, bool]:
    noise = bool(_NOISE_LIBRARY.match(library) or (symbol and _NOISE_SYMBOL.match(symbol)))
    if library == "libc" and not symbol:
        noise = True
    return (f"{library}!{symbol}" if symbol else library), noise


def _library(path: str) -> str:
    name = path.replace("!", "/").rstrip("/").rsplit("/", 1)[-1]
    if name.startswith(("<anonymous", "[anon", "anon_inode", "<unknown")) or not name:
        return "anonymous"
    if re.match(r"memfd:jit|dalvik-jit|jit-", name):
        return "jit-cache"
    name = re.sub(r"\.(?:so(?:\.\d+)*|oat|odex|art|dex|vdex)$", "", name)
    return re.sub(r"[\-_.]?\d+(?:\.\d+)+$", "", name)[:120]


def _symbol(text: str) -> str:
    """Without offset, parameters, template arguments, clones and hashes."""
    name = re.sub(r"\+(?:0x[0-9a-f]+|\d+)(?:/\w+)?$", "", text.strip().replace(" + ", "+")).strip()
    name = re.sub(r"(?:::h[0-9a-f]{16}|\.llvm\.\d+|\.(?:isra|part|constprop|cold|lto_priv)(?:\.\d+)?)+$", "", name)
    name = re.sub(r" ?\[clone [^\]]*\]|\[abi:\w+\]|@@?[A-Z][\w.]*$", "", name)
    name = re.sub(r"\{lambda\(.*?\)#\d+\}|\$_\d+|'lambda\d*'(?:\(.*?\))?", "lambda", name)
    name = name.replace("(anonymous namespace)", "anonymous").replace("operator()", "operator-call")
    for _ in range(4):  # nested template arguments and parameters, from the inside
        shorter = re.sub(r"<[^<>]*>|\([^()]*\)", "", name)
        if shorter == name:
            break
        name = shorter
    name = re.sub(r"[<(].*$", "", name) if not name.startswith(("<", "(")) else name
    name = re.sub(r"\b(?:const|volatile)\b.*$", "", name).strip()
    name = name.rsplit(" ", 1)[-1] if not name.startswith("operator") else name
    return name[:160]


def _method(name: str) -> str:
    """Without what compilers number: lambdas, inner classes without a name, synthetic accessors."""
    name = re.sub(r"\$\$(?:Lambda|ExternalSyntheticLambda|InternalSyntheticLambda)[\w$/]*(?:\.\w+)?", "$lambda", name)
    name = re.sub(r"lambda\$(\w+?)\$\w*", r"lambda$\1", name)
    name = re.sub(r"\$\d+(?=[.$]|$)|-\$\$Nest\$\w*|access\$\d+", "", name)
    return name[:200]
