"""stdout and stderr: each printed line goes home tagged with the call that printed it.

Descriptors 1 and 2 are connections to the service. Python's own streams write whole lines with a tag in
front, one per call; what a subprocess or a C library writes arrives untagged, and the service tells by
time whose it is.
"""

from __future__ import annotations

import contextvars
import io
import os
import sys
import threading
from typing import Dict

from .frames import connect

#: The call that the running code belongs to; 0 outside any.
CURRENT_CALL: contextvars.ContextVar[int] = contextvars.ContextVar("millrace_call", default=0)

_LONGEST_PARTIAL = 64 * 1024


class TaggedStream(io.TextIOBase):
    """A text stream that hands on whole lines, each as `\\x1e<call id>\\x1f<text>\\n`."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._partial: Dict[int, str] = {}
        self._lock = threading.RLock()
        self.buffer = io.FileIO(descriptor, "w", closefd=False)

    encoding = "utf-8"
    errors = "replace"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return False

    def close(self) -> None:
        """Closing sys.stdout must not silence the calls that come after."""

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not %s" % type(text).__name__)
        call_id = CURRENT_CALL.get()
        with self._lock:
            lines = (self._partial.pop(call_id, "") + text).split("\n")
            rest = lines.pop()
            if len(rest) > _LONGEST_PARTIAL:
                lines.append(rest)
                rest = ""
            if rest:
                self._partial[call_id] = rest
            if lines:
                self._emit(call_id, lines)
        return len(text)

    def finish(self, call_id: int) -> None:
        """Hands on what a call printed without an end of line."""
        if call_id in self._partial:
            with self._lock:
                self._emit(call_id, [self._partial.pop(call_id, "")])

    def _emit(self, call_id: int, lines: list) -> None:
        tag = "\x1e%d\x1f" % call_id
        data = "".join(tag + line + "\n" for line in lines).encode("utf-8", "replace")
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            pass  # The app closed the descriptor: its lines are lost, its calls are not.


def send_home(address: str, ticket: str) -> None:
    """Connects descriptors 1 and 2 to the service and makes Python's streams tag their lines."""
    for descriptor, kind in ((1, "stdout"), (2, "stderr")):
        connection = connect(address, kind, ticket)
        os.dup2(connection.fileno(), descriptor)
        connection.close()
    if not isinstance(sys.stdout, TaggedStream):
        sys.stdout = TaggedStream(1)  # type: ignore[assignment]
        sys.stderr = TaggedStream(2)  # type: ignore[assignment]


def finish_lines(call_id: int) -> None:
    """Call it when a call has ended."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TaggedStream):
            stream.finish(call_id)
