"""What a process below the agent prints, as lines for the service."""

from __future__ import annotations

import os

from .loop import IN, Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_LINE_BYTES = 8 * 1024
_PIECE_BYTES = 64 * 1024
#: What is printed before the harness has its own connections is little, unless something is wrong.
_EARLY_BYTES = 256 * 1024


class Lines:
    """What comes out of a pipe, line by line. Whoever reads them says which are told."""

    def __init__(self, loop: Loop, descriptor: int, stream: str, say: Callable[[str, Any], None]) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._stream = stream
        self._say = say
        self._rest = b""
        os.set_blocking(descriptor, False)
        self._watch()

    def _take(self, line: bytes) -> None:
        """One line."""
        raise NotImplementedError

    def _after(self, is_over: bool) -> None:
        """What has come was taken."""

    def _tell(self, line: bytes) -> None:
        text = line[:_LINE_BYTES].decode("utf-8", "replace")
        self._say("printed", {"stream": self._stream, "text": text})

    def _watch(self) -> None:
        self._loop.watch(self._descriptor, IN, self._read)

    def _read(self, _events: int) -> None:
        try:
            data = os.read(self._descriptor, _PIECE_BYTES)
        except BlockingIOError:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not data or len(self._rest) > _LINE_BYTES:
            lines += [self._rest] * (len(self._rest) > 0)
            self._rest = b""
        for line in lines:
            self._take(line)
        if not data:
            self._loop.forget(self._descriptor)
            os.close(self._descriptor)
        self._after(not data)


class EarlyLines(Lines):
    """Of the harness: all, as long as they are few."""

    _left_bytes = _EARLY_BYTES

    def _take(self, line: bytes) -> None:
        self._left_bytes -= len(line) + 1
        if self._left_bytes > 0:
            self._tell(line)
