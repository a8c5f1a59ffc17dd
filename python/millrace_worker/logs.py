"""stdout and stderr: connections to the service, on which Python's streams tag each line with its run.

Subprocesses and C libraries write untagged lines, which the service assigns to runs by time.
"""

from __future__ import annotations

import contextvars
import io
import os
import sys
import threading
from os import write as write_raw
from typing import Any

from .frames import connect

#: How a traceback names a file of the bundle; empty until the bundle is known.
_in_bundle = ""


def set_bundle(folder: str) -> None:
    """Shortens the paths of files in this folder from now on."""
    global _in_bundle
    _in_bundle = 'File "' + os.path.join(folder, "")


def shorten(text: str) -> str:
    """A traceback, or any text with one in it, without the path of the bundle's folder."""
    return text.replace(_in_bundle, 'File "') if _in_bundle else text


#: The run that the running code belongs to; empty outside any.
CURRENT_RUN: contextvars.ContextVar[str] = contextvars.ContextVar("millrace_run", default="")

_LONGEST_PARTIAL = 64 * 1024


class TaggedStream(io.TextIOBase):
    """A text stream that writes whole lines, each as `\\x1e<run id>\\x1f<text>\\n`."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        #: By run and thread: `print` writes text and newline separately, and another thread may write between.
        self._partial: dict[tuple[str, int], str] = {}
        self._lock = threading.RLock()
        self.buffer = io.FileIO(descriptor, "w", closefd=False)

    encoding = "utf-8"
    errors = "replace"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        """Does nothing: closing sys.stdout must not silence later calls."""

    def write(self, text: Any) -> int:
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not %s" % type(text).__name__)
        run_id = CURRENT_RUN.get()
        key = (run_id, threading.get_ident())
        with self._lock:
            lines = (self._partial.pop(key, "") + text).split("\n")
            rest = lines.pop()
            if len(rest) > _LONGEST_PARTIAL:
                lines.append(rest)
                rest = ""
            if rest:
                self._partial[key] = rest
            if lines:
                self._emit(run_id, lines)
        return len(text)

    def finish(self, run_id: str) -> None:
        """Writes what a run printed without a newline."""
        if self._partial:
            with self._lock:
                keys = [key for key in self._partial if key[0] == run_id]
                for key in keys:
                    self._emit(run_id, [self._partial.pop(key)])

    def _emit(self, run_id: str, lines: list[str]) -> None:
        tag = "\x1e%s\x1f" % run_id
        text = "".join(tag + line + "\n" for line in lines)
        if self._descriptor == 2:  # Tracebacks that the app prints itself.
            text = shorten(text)
        data = text.encode("utf-8", "replace")
        view = memoryview(data)
        try:
            while view:
                view = view[write_raw(self._descriptor, view) :]
        except OSError:
            pass  # The app closed the descriptor: its lines are lost, its calls are not.


def send_home(address: str, ticket: str) -> None:
    """Connects descriptors 1 and 2 to the service and makes Python's streams tag their lines."""
    for descriptor, kind in ((1, "stdout"), (2, "stderr")):
        connection = connect(address, kind, ticket)
        os.dup2(connection.fileno(), descriptor)
        connection.close()
    if not isinstance(sys.stdout, TaggedStream):
        sys.stdout = TaggedStream(1)
        sys.stderr = TaggedStream(2)


def finish_lines(run_id: str) -> None:
    """Call it when a run has ended."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TaggedStream):
            stream.finish(run_id)
