"""The process that starts every command of the shell, and sees how it ends.

It traces what it starts and their forks (not their further threads, as that would slow them), so that a process that
is about to die by a fault still has its registers and stack: those go to the system in a `crash` message. Messages
from the system: spawn, backtrace. To it: spawned, exited, crash, backtraced.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import termios
import time
from pathlib import Path
from typing import Any

from virtual.android import ptrace, symbols
from virtual.channel import MESSAGE_MAX, Channel, Message

CORE_SIGNALS = frozenset(
    {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP}
)
STOP_SIGNALS = frozenset({signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
OPTIONS = ptrace.OPTION_FORK | ptrace.OPTION_VFORK | ptrace.OPTION_EXIT | ptrace.OPTION_EXITKILL
RESET = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]
THREADS_MAX = 128


class Zygote:
    """Single-threaded: what it forks is in a known state."""

    def __init__(self, channel: Channel, channel_fd: int, cgroup_fds: list[int]) -> None:
        self._channel = channel
        self._channel_fd = channel_fd
        self._cgroup_fds = cgroup_fds
        self._children: dict[int, int] = {}
        """pid → number that the system gave the command."""
        self._traced: set[int] = set()
        self._reported: set[int] = set()

    def run(self) -> None:
        """Until the system is gone."""
        wake_read, wake_write = os.pipe()
        for fd in (wake_read, wake_write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            ready, _, _ = select.select([self._channel_fd, wake_read], [], [])
            with contextlib.suppress(BlockingIOError):
                os.read(wake_read, 4096)
            self._reap()
            if self._channel_fd in ready:
                message, fds = self._channel.receive_now()
                if message["op"] == "spawn":
                    self._spawn(message, fds)
                elif message["op"] == "backtrace":
                    self._channel.send(
                        {"op": "backtraced", "id": message["id"], "text": self._backtrace(message["pid"])}
                    )

    # --- starting

    def _spawn(self, message: Message, fds: list[int]) -> None:
        go_read, go_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(go_write)
            self._become(message, fds, go_read)
        os.close(go_read)
        for fd in fds:
            os.close(fd)
        with contextlib.suppress(OSError):
            ptrace.request(ptrace.SEIZE, pid, 0, OPTIONS)
            self._traced.add(pid)
        self._children[pid] = message["id"]
        self._channel.send({"op": "spawned", "id": message["id"], "pid": pid})
        os.close(go_write)

    def _become(self, message: Message, fds: list[int], go: int) -> None:
        """In the child: turns into the command, once the parent traces us."""
        try:
            signal.set_wakeup_fd(-1)
            for number in RESET:
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, signal.SIG_DFL)
            os.setsid()
            for target, fd in enumerate(fds):
                os.dup2(fd, target)
            if message["pty"]:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            for fd in self._cgroup_fds:
                os.write(fd, b"0")
            os.read(go, 1)
            os.closerange(3, 256)
            os.chdir("/")
            os.execve(message["argv"][0], message["argv"], message["environment"])
        except BaseException as error:
            os.write(2, f"{message['argv'][0]}: {error}\n".encode())
        os._exit(127)

    # --- watching

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | ptrace.WALL)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                with contextlib.suppress(OSError):  # killed in the meantime
                    self._on_stop(pid, os.WSTOPSIG(status), status >> 16)
                continue
            self._traced.discard(pid)
            self._reported.discard(pid)
            if pid in self._children:
                code = os.waitstatus_to_exitcode(status)
                self._channel.send({"op": "exited", "id": self._children.pop(pid), "code": code})

    def _on_stop(self, pid: int, number: int, event: int) -> None:
        self._traced.add(pid)
        if event == ptrace.EVENT_STOP and number in STOP_SIGNALS:
            ptrace.request(ptrace.LISTEN, pid)
        elif event:
            if event == ptrace.EVENT_EXIT:
                self._on_exit(pid, ptrace.event_message(pid))
            ptrace.request(ptrace.CONT, pid)
        else:
            if number in CORE_SIGNALS and not _caught(pid, number):
                self._report(pid, ptrace.signal_info(pid), ptrace.registers(pid))
            ptrace.request(ptrace.CONT, pid, 0, number)

    def _on_exit(self, pid: int, status: int) -> None:
        """A fault in a thread that we do not trace shows only in the status; of its registers nothing is known."""
        number = status & 0x7F
        if number in CORE_SIGNALS and pid not in self._reported:
            self._report(pid, ptrace.SignalInfo(number, 0, 0), {})

    def _report(self, pid: int, info: ptrace.SignalInfo, values: dict[str, int]) -> None:
        self._reported.add(pid)
        crash: dict[str, Any] = {
            "op": "crash",
            "pid": pid,
            "name": _text(pid, "comm").strip(),
            "command": _command_line(pid),
            "signal": info.number,
            "code": info.code if values else None,
            "address": info.address if values else None,
            "uptime_s": _uptime_s(pid),
            "registers": {name: f"{value:016x}" for name, value in values.items()},
            "frames": self._frames(pid, values),
        }
        self._channel.send(crash)

    # --- stacks

    def _frames(self, pid: int, values: dict[str, int]) -> list[str]:
        try:
            maps = symbols.mappings(pid)
        except OSError:
            return []
        counters = ptrace.stack_walk(pid, values)
        return [symbols.describe(counter, maps, index == 0) for index, counter in enumerate(counters)]

    def _backtrace(self, pid: int) -> str | None:
        """Threads of a process as `debuggerd -b` prints them; None when there is no such process."""
        try:
            threads = sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))[:THREADS_MAX]
        except OSError:
            return None
        parts = [
            f"Cmd line: {_text(pid, 'cmdline').replace(chr(0), ' ').strip()[:1000]}\nABI: '{os.uname().machine}'\n"
        ]
        for tid in threads:
            task = f"task/{tid}"
            state = next(
                (line for line in _text(pid, f"{task}/status").splitlines() if line.startswith("State:")), "State: ?"
            )
            waiting = _text(pid, f"{task}/wchan").strip() or "0"
            system_call = _text(pid, f"{task}/syscall").split()[:1] or ["unknown"]
            parts.append(f'\n"{_text(pid, f"{task}/comm").strip()}" sysTid={tid}\n')
            parts.append(f"    {state.replace(chr(9), ' ')}, wchan {waiting}, syscall {system_call[0]}\n")
            parts += [f"      #{index:02d} {frame}\n" for index, frame in enumerate(self._stopped_frames(pid, tid))]
            if sum(map(len, parts)) > MESSAGE_MAX * 3 // 4:
                parts.append("\n(more threads left out)\n")
                break
        return "".join(parts)

    def _stopped_frames(self, pid: int, tid: int) -> list[str]:
        seized = tid in self._traced
        if not ptrace.stop_thread(tid, seized):
            return []
        try:
            return self._frames(pid, ptrace.registers(tid))
        except OSError:
            return []
        finally:
            ptrace.release_thread(tid, seized)


def _caught(pid: int, number: int) -> bool:
    """Whether the process handles or ignores the signal itself."""
    masks = {
        line.split(":")[0]: line.split()[1] for line in _text(pid, "status").splitlines() if line.startswith("Sig")
    }
    bit = 1 << (number - 1)
    return bool((int(masks.get("SigCgt", "0"), 16) | int(masks.get("SigIgn", "0"), 16)) & bit)


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text("utf-8", "replace")
    except OSError:
        return ""


def _command_line(pid: int) -> str:
    return _text(pid, "cmdline").replace("\0", " ").strip()[:1000]


def _uptime_s(pid: int) -> float | None:
    fields = _text(pid, "stat").rpartition(")")[2].split()
    if len(fields) < 20:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Arguments: the channel's fd, then the cgroup fds that a command joins."""
    channel_fd, *cgroup_fds = [int(value) for value in sys.argv[1:]]
    Path("/proc/self/comm").write_text("zygote64")
    os.umask(0)
    with contextlib.suppress(EOFError):
        Zygote(Channel.from_fd(channel_fd), channel_fd, cgroup_fds).run()
