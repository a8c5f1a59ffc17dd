"""Finds where an app's own server listens, and whether that socket belongs to the app."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable

from . import looks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LISTENING = "0A"
_ANY_4, _ANY_6 = "0" * 8, "0" * 32
_LOOPBACK_6 = "00000000000000000000000001000000"
_MAPPED = "0000000000000000FFFF0000"
#: The app decides how many processes and descriptors it has; the last limit is for one process.
_MAX_PROCESSES = 256
_MAX_DESCRIPTORS = 16_384
_MAX_OWN_DESCRIPTORS = 4_096


class OwnServer:
    """The server below a process. `port` is its PORT, `authored` the port that may be in its code."""

    def __init__(self, port: int, authored: int) -> None:
        self._port = port
        self._authored = authored
        #: Its known sockets. A socket never passes from one app to another.
        self._own: frozenset[str] = frozenset()

    def place(self, top: int) -> dict[str, Any]:
        """For the service: where the server below that process listens now. `taken` is its own port, if another
        process listens there. The authored port may be in use by another app while this one still starts.
        """
        for port in dict.fromkeys((self._port, self._authored)):
            sockets = _listening_on(port)
            if not sockets:
                continue
            if not sockets.keys() <= self._own:
                self._own = _held_below(top, sockets.keys())
            # Either of two sockets that share a port may get a connection.
            if sockets.keys() <= self._own:
                host = _host_of(next(iter(sockets.values())))
                is_open = not all(_is_loopback(address) for address in sockets.values())
                return {"is": True, "host": host, "port": port, "is_fixed": port != self._port, "is_open": is_open}
            if port == self._port:
                return {"is": False, "taken": port}
        return {"is": False}

    def dial(self, top: int) -> socket.socket | None:
        """A connection to it, perhaps still in progress; None if the server does not listen."""
        place = self.place(top)
        if not place["is"]:
            return None
        family = socket.AF_INET6 if ":" in place["host"] else socket.AF_INET
        local = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        local.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        local.connect_ex((place["host"], place["port"]))
        return local


def seen_by(pid: int, port: int) -> list[str]:
    """Addresses of the sockets that listen on a port in that process's network."""
    return list(_listening_on(port, "/proc/%d/net" % pid).values())


def is_reached_from_outside(addresses: Iterable[str]) -> bool:
    """Whether one of the addresses is not a loopback address."""
    return any(not _is_loopback(address) for address in addresses)


def _listening_on(port: int, tables: str = "/proc/net") -> dict[str, str]:
    """The listening sockets of a port: their addresses, as the kernel writes them, by inode."""
    wanted = "%04X" % port
    found: dict[str, str] = {}
    for table in ("tcp", "tcp6"):
        try:
            with open("%s/%s" % (tables, table), encoding="ascii") as rows:
                next(rows, None)
                for row in rows:
                    words = row.split()
                    # The kernel lists listening sockets first; a busy machine has thousands of others.
                    if words[3] != _LISTENING:
                        break
                    address, _, number = words[1].partition(":")
                    if number == wanted:
                        found[words[9]] = address
        except (OSError, IndexError):
            pass  # A kernel without IPv6, or the process has ended.
    return found


def _host_of(address: str) -> str:
    """How to reach an address from this machine. The kernel writes words of four bytes, each backwards."""
    if len(address) == 8:
        return "127.0.0.1" if address == _ANY_4 else socket.inet_ntoa(bytes.fromhex(address)[::-1])
    if address.startswith(_MAPPED):
        return _host_of(address[len(_MAPPED) :])
    if address != _ANY_6:
        return "::1"
    # A socket for all IPv6 addresses may not take IPv4, and a host may have no IPv6 loopback.
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as rows:
            return "::1" if any(row.startswith("0" * 31 + "1 ") for row in rows) else "127.0.0.1"
    except OSError:
        return "127.0.0.1"


def _is_loopback(address: str) -> bool:
    is_mapped = address[:-8] in ("", _MAPPED)
    return address == _LOOPBACK_6 or (is_mapped and address.endswith("7F"))


def _held_below(top: int, wanted: Iterable[str]) -> frozenset[str]:
    names = {"socket:[%s]" % each: each for each in wanted}
    found: set[str] = set()
    left = _MAX_DESCRIPTORS
    for pid in looks.below(top, _MAX_PROCESSES):
        folder = "/proc/%d/fd" % pid
        try:
            numbers = os.listdir(folder)[: min(left, _MAX_OWN_DESCRIPTORS)]
        except OSError:
            continue  # It has just ended, or belongs to another user.
        left -= len(numbers)
        for number in numbers:
            try:
                name = os.readlink(folder + "/" + number)
            except OSError:
                continue  # It was just closed.
            if name in names:
                found.add(names[name])
        if len(found) == len(names):
            break
    return frozenset(found)
