"""An app's own server below the agent: a keeper whose ward becomes the program that its author named."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable

from millrace_worker import keeper, linux

from . import looks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .order import Server

_PID_BYTES = 32
_LISTENING = "0A"
_LOOPBACK_6 = "00000000000000000000000001000000"


def main() -> None:
    """`sys.argv` is `-c`, the bundle's folder, the program and its arguments. It begins with the agent's pid on stdin.

    Who asked for its parent here could be told of another: the agent may have died meanwhile.
    """
    told = os.read(0, _PID_BYTES)
    if not told:
        os._exit(1)
    owner = int(told)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    linux.close_inherited(3)
    os.chdir(sys.argv[1])
    keeper.keep(_serve, owner)


def become() -> None:
    """The same where a keeper is there already."""
    _serve()


class _Listening:
    """Where a server takes connections: on the port that it was given, or on the one that is in its code."""

    def __init__(self, port: int, is_fixed: bool, is_open: bool, own: frozenset[str]) -> None:
        #: 0 for nowhere.
        self.port = port
        self._is_fixed = is_fixed
        self._is_open = is_open
        #: Sockets that were found to be its own. A socket never changes hands between apps.
        self.own = own

    @property
    def is_there(self) -> bool:
        return self.port > 0

    def told(self) -> dict[str, bool]:
        """For the service; whether other machines reach it, past that, is told too."""
        return {"is": self.is_there, "is_fixed": self._is_fixed, "is_open": self._is_open}


_NOWHERE = _Listening(0, False, False, frozenset())


class OwnServer:
    """The server below a process, as far as the service has to know of it."""

    def __init__(self, server: Server, top: int, say: Callable[[str, Any], None]) -> None:
        self._server = server
        self._top = top
        self._say = say
        #: As it was last told.
        self._listening = _NOWHERE

    def look(self) -> None:
        """Tells where it takes connections, if that has changed."""
        listening = _find(self._server, self._top, self._listening)
        if listening.told() != self._listening.told():
            self._say("listening", listening.told())
        self._listening = listening

    def tell_again(self) -> None:
        """A service that has just come knows of none."""
        if self._listening.is_there:
            self._say("listening", self._listening.told())

    @property
    def is_there(self) -> bool:
        return self._listening.is_there

    def dial(self) -> socket.socket:
        """A connection to it, which may not stand yet."""
        local = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        local.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        local.connect_ex(("127.0.0.1", self._listening.port))
        return local


def _find(server: Server, top: int, before: _Listening) -> _Listening:
    """Where the server below that process takes connections. Others of its machine may have the port it should have."""
    own = before.own
    for port in dict.fromkeys((server.port, server.authored)):
        sockets = _listening_on(port)
        if not sockets:
            continue
        if not sockets.keys() <= own:
            own = _held_below(top, sockets.keys())
        if sockets.keys() <= own:
            return _Listening(port, port != server.port, any(sockets.values()), own)
    return _NOWHERE


def _listening_on(port: int) -> dict[str, bool]:
    """The sockets that take connections there, by number, with whether they do so from other machines."""
    wanted = "%04X" % port
    found: dict[str, bool] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as rows:
                for row in rows:
                    words = row.split()
                    address, _, number = words[1].partition(":")
                    if words[3] == _LISTENING and number == wanted:
                        found[words[9]] = not _is_loopback(address)
        except OSError:
            pass  # A kernel without IPv6.
    return found


def _is_loopback(address: str) -> bool:
    """As the kernel's tables write it: words of four bytes, each backwards."""
    is_mapped = address[:-8] in ("", "0000000000000000FFFF0000")
    return address == _LOOPBACK_6 or (is_mapped and address.endswith("7F"))


def _held_below(top: int, wanted: Iterable[str]) -> frozenset[str]:
    """Those of the sockets that a process below that one holds."""
    names = {"socket:[%s]" % each: each for each in wanted}
    found: set[str] = set()
    for pid in looks.below(top):
        folder = "/proc/%d/fd" % pid
        try:
            for descriptor in os.listdir(folder):
                name = os.readlink(os.path.join(folder, descriptor))
                if name in names:
                    found.add(names[name])
        except OSError:
            pass  # It has ended, or has just closed one: the next look is soon.
    return frozenset(found)


def _serve() -> None:
    program, *rest = sys.argv[2:]
    try:
        os.execvp(program, [program, *rest])
    except OSError as error:
        print("the app cannot start: %s: %s" % (program, error.strerror), file=sys.stderr, flush=True)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
