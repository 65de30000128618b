"""The device's file tree and namespaces: bubblewrap twice.

The outer sandbox is the hardware: it keeps /data, the network and the board's process. The inner one is the operating
system: its process tree dies at a reboot and comes back over the same /data, with a new boot id.
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

CODE = "/apex/virtual"
"""Where the device's own code lies inside the device."""
HARDWARE = "/mnt/vendor/hardware"
"""What the hardware shows to the operating system: profile.json, state.json, proc/."""
SYSTEM_BIN = "/system/bin"
PROC_OVERLAYS = {
    "boot_id": "sys/kernel/random/boot_id",
    **{name: name for name in ("cpuinfo", "meminfo", "uptime", "loadavg", "stat", "vmstat")},
}
PROGRAMS = ("adbd", "zygote64")
"""Names of our own processes inside."""
SHELL_UID = 2000
"""Android's `shell` user."""

# What Android's toybox has and Debian's lacks, taken from the host's own tools where it has them.
FALLBACK_TOOLS = (
    "awk",
    "tr",
    "dd",
    "diff",
    "expr",
    "more",
    "xz",
    "gzip",
    "getfattr",
    "strace",
    "lscpu",
    "vi",
    "hexdump",
)
# Tools of Debian's toybox that must not shadow our services, or that make no sense on a phone.
NOT_FROM_TOYBOX = frozenset(
    {
        *("reboot", "poweroff", "halt", "uptime", "log", "dmesg", "eject", "insmod", "rmmod", "chroot", "pivot_root"),
        *("switch_root", "openvt", "deallocvt", "chvt", "mkpasswd", "su", "login"),
    }
)
# What libraries and drivers of the host need from its /etc.
SHARED_ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/OpenCL")
TOOLS = {
    "bwrap": "bubblewrap",
    "mksh": "mksh",
    "toybox": "toybox",
}


class SandboxError(Exception):
    """The machine lacks what a device needs; the message names the remedy."""


def require_tools() -> None:
    """Raises one clear line when something is missing."""
    missing = sorted(package for tool, package in TOOLS.items() if shutil.which(tool) is None)
    if missing:
        raise SandboxError(f"virtual devices need {', '.join(missing)}: type  sudo apt-get install {' '.join(missing)}")


def tool(name: str) -> str:
    """Absolute path of a tool that `require_tools` has seen."""
    found = shutil.which(name)
    if found is None:
        raise SandboxError(f"{name} is gone from PATH")
    return os.path.realpath(found)


def interpreter() -> str:
    """The Python that runs inside: the one behind our virtual environment."""
    return os.path.realpath(sys.executable)


def build_system(folder: Path, services: list[str], toybox_tools: list[str]) -> None:
    """Fills `folder` with /system and /etc: links to mksh, toybox and our services."""
    binaries = folder / "system" / "bin"
    binaries.mkdir(parents=True, exist_ok=True)
    (folder / "system" / "etc").mkdir(exist_ok=True)
    client = binaries / "service-client"
    body = (Path(__file__).parent / "android" / "client.py").read_text()
    client.write_text(f"#!{interpreter()} -IS\n{body}")
    client.chmod(0o755)
    links = {name: tool("toybox") for name in toybox_tools if name not in NOT_FROM_TOYBOX}
    links |= {
        name: os.path.realpath(found) for name in FALLBACK_TOOLS if name not in links and (found := shutil.which(name))
    }
    links |= {"sh": tool("mksh"), "mksh": tool("mksh"), "toybox": tool("toybox")}
    links |= dict.fromkeys(services, "service-client") | dict.fromkeys(PROGRAMS, interpreter())
    for name, target in links.items():
        link = binaries / name
        if not link.is_symlink():
            link.symlink_to(target)
    etc = folder / "etc"
    etc.mkdir(exist_ok=True)
    (etc / "passwd").write_text("root:x:0:0::/:/system/bin/sh\nshell:x:2000:2000::/:/system/bin/sh\n")
    (etc / "group").write_text("root:x:0:\nshell:x:2000:\n")
    (etc / "hosts").write_text("127.0.0.1 localhost\n::1 ip6-localhost\n")
    for shared in SHARED_ETC:  # mount points: the folder is read-only later
        if Path(shared).is_dir():
            (folder / shared.lstrip("/")).mkdir(exist_ok=True)
        elif Path(shared).exists():
            (folder / shared.lstrip("/")).touch()


def _merged_usr() -> list[str]:
    arguments: list[str] = []
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            arguments += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    return arguments


def _code() -> list[str]:
    here = Path(__file__).parent
    # The profiles stay outside: a suite must not read where its device throttles.
    arguments = ["--ro-bind", str(here), f"{CODE}/virtual", "--tmpfs", f"{CODE}/virtual/profiles"]
    arguments += ["--ro-bind", str(here.parent / "farm" / "adb" / "wire"), f"{CODE}/farm/adb/wire"]
    elftools = find_spec("elftools")
    if elftools is not None and elftools.origin is not None:
        arguments += ["--ro-bind", str(Path(elftools.origin).parent), f"{CODE}/elftools"]
    prefix = os.path.realpath(sys.base_prefix)
    if not prefix.startswith("/usr"):
        arguments += ["--ro-bind", prefix, prefix]
    return arguments


def python_command(module: str, *arguments: str, program: str | None = None) -> list[str]:
    """Runs `module.main()` of the device's code inside the sandbox, isolated from any environment.

    `program`: name in /system/bin under which `ps` shall show it.
    """
    start = f"import sys; sys.path.insert(0, {CODE!r}); from {module} import main; main()"
    python = interpreter() if program is None else f"{SYSTEM_BIN}/{program}"
    return [python, "-I", "-S", "-c", start, *arguments]


#: The kernel's own switches ask for the caller's user id on the host, which may be root: read-only for what runs here.
SWITCHES = tuple(
    word
    for name in (
        "sys",
        "irq",
        "bus",
        "fs",
        "driver",
        "acpi",
        "scsi",
        "asound",
        "sysrq-trigger",
        "mtrr",
        "latency_stats",
    )
    for word in ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
)


def outer_command(folder: Path, data_bytes: int, privileged: bool, command: list[str]) -> list[str]:
    """bubblewrap for the hardware. `privileged`: we are root, and the board may resize /data."""
    argv = [tool("bwrap"), "--unshare-user", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    argv += ["--hostname", "localhost", "--as-pid-1", "--die-with-parent", "--new-session", "--clearenv"]
    if privileged:
        argv += ["--uid", "0", "--gid", "0", "--cap-add", "CAP_SYS_ADMIN"]
    argv += ["--ro-bind", "/usr", "/usr", *_merged_usr(), *_code()]
    # No SWITCHES here, where only the board runs: the inner sandbox gets a /proc only while this one is whole.
    argv += ["--proc", "/proc", "--dev", "/dev", "--dir", "/tmp"]
    argv += ["--size", str(data_bytes), "--tmpfs", "/data"]
    argv += ["--symlink", "/data/media/0", "/sdcard", "--symlink", "/data/media/0", "/storage/emulated/0"]
    argv += ["--ro-bind", str(folder / "root" / "system"), "/system", "--ro-bind", str(folder / "root" / "etc"), "/etc"]
    for shared in SHARED_ETC:
        argv += ["--ro-bind-try", shared, shared]
    argv += ["--ro-bind", str(folder / "hardware"), HARDWARE, "--ro-bind", str(folder / "sys"), "/sys"]
    return [*argv, "--remount-ro", "/", "--", *command]


def inner_command(command: list[str]) -> list[str]:
    """bubblewrap for one boot of the operating system; run inside the outer one."""
    uid = str(SHELL_UID)
    argv = ["/usr/bin/bwrap", "--unshare-user", "--uid", uid, "--gid", uid, "--unshare-pid", "--die-with-parent"]
    argv += ["--dev-bind", "/", "/", "--proc", "/proc", *SWITCHES, "--dev", "/dev", "--dir", "/dev/socket"]
    for name, target in PROC_OVERLAYS.items():
        argv += ["--ro-bind", f"{HARDWARE}/proc/{name}", f"/proc/{target}"]
    return [*argv, "--", *command]
