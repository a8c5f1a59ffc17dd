"""Opens connections to the service for processes behind walls, which cannot reach it themselves.

A request is one message over a socket that the app's first process inherits: the first line of the connection, and a
descriptor for the answer. Nothing in it is trusted. The kernel says which process asks.
"""

from __future__ import annotations

import os
import socket
import struct
import time

from millrace_worker import linux

_KINDS = (b"wire", b"control", b"stdout", b"stderr", b"template")
_TICKET_BYTES = 32
_HEX_DIGITS = b"0123456789abcdef"
_REQUEST_BYTES = 128
_CREDENTIALS = struct.Struct("iii")
_DESCRIPTOR = struct.Struct("i")
# Room for more than one descriptor, so that further ones are seen and closed.
_ANCILLARY_BYTES = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(8 * _DESCRIPTOR.size)

#: Requests at once, and per second after those: 32 replicas that start together need 128.
_BURST = 256
_PER_SECOND = 64
#: With more replicas than this, those that have ended are forgotten.
_MAX_FORKS = 64


class Door:
    """The agent's end. It answers one request at a time."""

    def __init__(self, end: socket.socket, home: str) -> None:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._end = end
        self._home = home
        #: Unused tickets of replicas that a template is to fork.
        self._expected: set[str] = set()
        #: The pids of such replicas, by ticket.
        self._forks: dict[str, int] = {}
        #: Paths of files to lend, by ticket.
        self._lent: dict[str, str] = {}
        self._left = float(_BURST)
        self._counted_at = time.monotonic()

    def fileno(self) -> int:
        return self._end.fileno()

    def expect(self, ticket: str) -> None:
        """Announces a forked replica that will show this ticket."""
        self._expected.add(ticket)

    def lend(self, ticket: str, path: str) -> None:
        """Has the process that shows this ticket also get this file, open for reading, wherever it is."""
        self._lent[ticket] = path

    def forks(self) -> dict[str, int]:
        """The pids of replicas that a template has forked, by ticket; safe in any thread."""
        return dict(self._forks)

    def pause_seconds(self) -> float:
        """How long the next request has to wait. An app that asks too often slows down only itself."""
        now = time.monotonic()
        self._left = min(_BURST, self._left + (now - self._counted_at) * _PER_SECOND)
        self._counted_at = now
        return 0 if self._left >= 1 else (1 - self._left) / _PER_SECOND

    def answer(self) -> bool:
        """Answers one request; false when no process is left that could ask."""
        self._left -= 1
        request, ancillary, flags, _ = self._end.recvmsg(_REQUEST_BYTES, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC)
        pid = 0
        given: list[int] = []
        for level, kind, data in ancillary:
            if level != socket.SOL_SOCKET:
                continue
            if kind == socket.SCM_CREDENTIALS:
                pid = _CREDENTIALS.unpack(data)[0]
            elif kind == socket.SCM_RIGHTS:
                whole = data[: len(data) - len(data) % _DESCRIPTOR.size]
                given += [each for (each,) in _DESCRIPTOR.iter_unpack(whole)]
        is_whole = not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
        try:
            if is_whole and len(given) == 1 and _is_request(request):
                self._connect(pid, request, given[0])
        except OSError:
            pass  # No service, or no way to answer: the process sees that nothing comes.
        finally:
            for each in given:
                os.close(each)
        return bool(request or ancillary)

    def _connect(self, pid: int, request: bytes, given: int) -> None:
        self._note(pid, request)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(self._home)
            # The pid on the host, which may differ from that inside the walls.
            connection.sendall(b"%s %d\n" % (request, pid))
            path = self._lent.pop(request[-_TICKET_BYTES:].decode(), None)
            lent = _opened(path)
            packed = b"".join(_DESCRIPTOR.pack(each) for each in (connection.fileno(), *lent))
            # Raises if it is no socket. The caller closes the descriptor.
            answer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=given)
            try:
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)
                answer.sendmsg([b"\n"], [rights], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            finally:
                answer.detach()
                for each in lent:
                    os.close(each)

    def _note(self, pid: int, request: bytes) -> None:
        """Notes a replica. An app may show any ticket, so only expected ones count, and each once."""
        kind, ticket = request.decode().split(" ")[2:]
        if kind != "wire" or ticket not in self._expected:
            return
        self._expected.remove(ticket)
        if len(self._forks) >= _MAX_FORKS:
            self._forks = {each: old for each, old in self._forks.items() if linux.parent_of(old) > 0}
        self._forks[ticket] = pid


def _opened(path: str | None) -> list[int]:
    try:
        return [] if path is None else [os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)]
    except OSError:
        return []  # It was removed: the process gets none.


def _is_request(text: bytes) -> bool:
    """Whether this is exactly the first line of a connection."""
    parts = text.split(b" ")
    if len(parts) != 4 or parts[:2] != [b"millrace", b"1"] or parts[2] not in _KINDS:
        return False
    return len(parts[3]) == _TICKET_BYTES and not parts[3].strip(_HEX_DIGITS)
