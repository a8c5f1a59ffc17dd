"""The parts of a seat that another service can take over: its pipes, and its template."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from .loop import IN, Loop

_BYTES = 64 * 1024
_buffer = bytearray(_BYTES)
#: A template's first line describes all functions of its app.
_MAX_LINE_BYTES = 16 * 1024 * 1024
_MAX_CHILDREN = 10_000


class Pipe:
    """The read end of a pipe, as a connection that discards what is written to it.

    It is read to its end even without a service: a program that prints into a closed pipe dies.
    """

    def __init__(self, loop: Loop, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._loop = loop
        self._descriptor = descriptor
        #: The pipe has ended.
        self.is_over = False
        #: What comes out of it is discarded: there is no service for it.
        self.is_lost = False

    def fileno(self) -> int:
        return self._descriptor

    def recv_into(self, buffer: bytearray) -> int:
        count = os.readv(self._descriptor, [buffer])
        self.is_over = count == 0
        return count

    def send(self, data: bytes | memoryview) -> int:
        return len(data)

    def shutdown(self, _how: int) -> None:
        pass

    def close(self) -> None:
        """Called when its connection is lost or has ended."""
        if self.is_over:
            os.close(self._descriptor)
        else:
            self.is_lost = True
            self._loop.watch(self._descriptor, IN, self._drop)

    def find(self) -> None:
        """Stops discarding, so that it can be relayed again."""
        self._loop.forget(self._descriptor)
        self.is_lost = False

    def _drop(self, _events: int) -> None:
        try:
            if self.recv_into(_buffer) > 0:
                return
        except BlockingIOError:
            return
        except OSError:
            self.is_over = True
        self._loop.forget(self._descriptor)
        os.close(self._descriptor)


class Template(Pipe):
    """The connection of a template. It follows the messages in both directions, so that the next service hears what the
    template said first, and gets it only when everything that it forked for the previous service has ended.
    """

    def __init__(self, loop: Loop, descriptor: int) -> None:
        super().__init__(loop, descriptor)
        #: Its message after the import of the app.
        self.ready = b""
        #: It forks, and both sides have kept to the protocol.
        self.is_sound = True
        #: The tickets of its living forks by id, and their pids by ticket.
        self._children: dict[str, str] = {}
        self._pids: dict[str, int] = {}
        #: Incomplete lines from it, and to it.
        self._said = self._told = b""

    @property
    def may_go_on(self) -> bool:
        return self.is_sound and not self.is_over and self.ready != b""

    @property
    def is_alone(self) -> bool:
        """Whether all its forks have ended."""
        return not self._children

    def forks(self) -> dict[str, int]:
        """The pids of its forks that have called home, by ticket; safe in any thread."""
        return dict(self._pids)

    def meet(self, ticket: str, pid: int) -> None:
        if ticket in self._children.values():
            self._pids[ticket] = pid

    def recv_into(self, buffer: bytearray) -> int:
        count = super().recv_into(buffer)
        self._said = self._read_along(self._said, memoryview(buffer)[:count], self._hear)
        return count

    def send(self, data: bytes | memoryview) -> int:
        count = os.write(self._descriptor, data)
        self._told = self._read_along(self._told, memoryview(data)[:count], self._note)
        return count

    def close(self) -> None:
        super().close()
        # An incomplete order can never be completed.
        self.is_sound = self.is_sound and not self._told
        self.end_children("kill")

    def overhear(self, data: bytes) -> None:
        """Takes what it said before this object read from it."""
        self._said = self._read_along(self._said, memoryview(data), self._hear)

    def leave(self) -> None:
        """Closes it: its service still has the seat, and has detached it."""
        if self.is_lost and not self.is_over:
            self.is_over = True
            self.find()
            os.close(self._descriptor)

    def end_children(self, order: str) -> None:
        if not self.is_lost or self.is_over:
            return
        for child in self._children:
            line = json.dumps({order: child}).encode() + b"\n"
            try:
                self.is_sound = self.is_sound and os.write(self._descriptor, line) == len(line)
            except OSError:
                self.is_sound = False

    def _read_along(self, rest: bytes, data: memoryview, take: Callable[[bytes], object]) -> bytes:
        """Takes complete lines; returns the rest."""
        if not self.is_sound:
            return rest
        *lines, rest = (rest + bytes(data)).split(b"\n")
        try:
            if len(rest) > _MAX_LINE_BYTES:
                raise ValueError("a line that is too long")
            for line in lines:
                take(line)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.is_sound = False
        return rest

    def _hear(self, line: bytes) -> None:
        ((word, value),) = json.loads(line).items()
        if word == "ready":
            self.ready = line + b"\n"
            self.is_sound = value["forks"] is True
        elif word == "failed":
            self.is_sound = False
        elif word == "exited":
            self._pids.pop(self._children.pop(value["id"], ""), None)
            if self.is_lost:
                self._loop.wake()  # The agent may wait for it.

    def _note(self, line: bytes) -> None:
        ((word, value),) = json.loads(line).items()
        if word == "fork":
            self._children[str(value["id"])] = str(value["ticket"])
            self.is_sound = len(self._children) <= _MAX_CHILDREN
