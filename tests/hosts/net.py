"""Network namespaces, so that a host of a test can really be cut off: one bridge, a link per host. Needs root.

The calling thread enters a namespace for the time of a block; what it starts there stays there.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

_CLONE_NEWNET = 0x40000000
_SETNS = ctypes.CDLL(None, use_errno=True).setns
_NUMBER = count(1)


class Network:
    """A bridge of this machine with namespaces on it; `gateway` is this side's address."""

    def __init__(self) -> None:
        number = os.getpid() % 250 + 1, next(_NUMBER) % 250
        self._prefix = f"10.{number[0]}.{number[1]}"
        self._name = f"f{os.getpid() % 100000:x}{number[1]:x}"
        self.gateway = f"{self._prefix}.1"
        self._hosts: dict[str, int] = {}
        _ip("link", "add", self._name, "type", "bridge")
        _ip("addr", "add", f"{self.gateway}/24", "dev", self._name)
        _ip("link", "set", self._name, "up")

    def add(self, host: str) -> None:
        """A namespace with a link to the bridge."""
        n = self._hosts[host] = len(self._hosts) + 2
        space, outer, inner = self.namespace(host), self._link(n), f"{self._link(n)}i"
        _ip("netns", "add", space)
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner)
        _ip("link", "set", outer, "master", self._name, "up")
        _ip("link", "set", inner, "netns", space)
        _ip("-n", space, "addr", "add", f"{self._prefix}.{n}/24", "dev", inner)
        _ip("-n", space, "link", "set", inner, "up")
        _ip("-n", space, "link", "set", "lo", "up")

    def cut(self, host: str) -> None:
        """Nothing gets through, and nobody is told."""
        _ip("link", "set", self._link(self._hosts[host]), "down")

    def mend(self, host: str) -> None:
        _ip("link", "set", self._link(self._hosts[host]), "up")

    @contextmanager
    def inside(self, host: str | None) -> Iterator[None]:
        """This thread is on that host; what it starts meanwhile stays there."""
        if host is None or host not in self._hosts:
            yield
            return
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/var/run/netns/{self.namespace(host)}", os.O_RDONLY)
        try:
            _enter(there)
            yield
        finally:
            _enter(home)
            os.close(home)
            os.close(there)

    def namespace(self, host: str) -> str:
        return f"{self._name}-{self._hosts[host]}"

    def _link(self, number: int) -> str:
        return f"{self._name}v{number}"

    def close(self) -> None:
        for host in self._hosts:
            _ip("netns", "del", self.namespace(host), check=False)
            _ip("link", "del", self._link(self._hosts[host]), check=False)
        _ip("link", "del", self._name, check=False)


def _enter(namespace: int) -> None:
    if _SETNS(namespace, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _ip(*arguments: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=30)
    if check and done.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
