"""A process below the agent, its environment and its output."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping

from millrace_worker import keeper, linux

from .loop import IN, Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

PYTHON_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: The interpreter of keepers, and of apps without one of their own.
PYTHON = os.path.realpath(sys.executable)

#: The variables of its seat that an app gets: those that it gets from a service on one machine, and the GPUs that its
#: cluster has assigned.
ALLOWED = (
    *("PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"),
    *("CUDA_VISIBLE_DEVICES", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)


def environment_of(
    variables: dict[str, str], storage: str, environment: str | None, scratch: str | None = None
) -> dict[str, str]:
    """The variables of the app's processes. With `scratch`, that folder is their home and temporary folder."""
    found = {"LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
    found.update({name: os.environ[name] for name in ALLOWED if name in os.environ})
    if scratch is not None:
        found["HOME"] = found["TMPDIR"] = scratch
    if environment is not None:
        found["VIRTUAL_ENV"] = environment
        found["PATH"] = os.path.join(environment, "bin") + os.pathsep + found.get("PATH", os.defpath)
    found["HF_HOME"] = os.path.join(storage, ".cache", "huggingface")
    found.update(variables)
    found["PERSISTENT_STORAGE"] = storage
    return found


def name_python(folder: str) -> str:
    """Makes a folder of links to the interpreter: on this machine its usual names may be missing, or name another."""
    names = os.path.join(folder, "bin")
    os.mkdir(names, 0o755)
    for name in ("python", "python3"):
        os.symlink(PYTHON, os.path.join(names, name))
    return names


class Child:
    """A keeper, and below it a template, a replica, a server or a step of a build."""

    def __init__(
        self, arguments: list[str], given: bytes, variables: dict[str, str], more: Mapping[int, int] = {}
    ) -> None:
        """`given` goes to its stdin; `more` has further descriptors, by the number that they get in the child."""
        order_read, order_write = os.pipe()
        self.stdout, stdout_write = os.pipe()
        self.stderr, stderr_write = os.pipe()
        try:
            self.pid = os.posix_spawn(
                arguments[0],
                arguments,
                variables,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, order_read, 0),
                    (os.POSIX_SPAWN_DUP2, stdout_write, 1),
                    (os.POSIX_SPAWN_DUP2, stderr_write, 2),
                    *((os.POSIX_SPAWN_DUP2, held, number) for number, held in more.items()),
                ],
                setsigdef=[signal.SIGPIPE],
            )
        except OSError:
            for descriptor in (order_write, self.stdout, self.stderr):
                os.close(descriptor)
            raise
        finally:
            for descriptor in (order_read, stdout_write, stderr_write):
                os.close(descriptor)
        try:
            os.write(order_write, given)
        except OSError:
            pass  # It died before it read; its end is noticed.
        os.close(order_write)

    @property
    def top(self) -> int:
        """The process above all others of the app."""
        return self.pid

    def work(self) -> None:
        """Does what is due; the loop calls it with each tick."""

    def status_of_end(self, pid: int, status: int) -> int | None:
        """The wait status of the app, if that child of the agent was the last of it."""
        return status if pid == self.pid else None

    def end(self) -> None:
        keeper.tell(self.pid, signal.SIGTERM)

    def ask(self) -> None:
        """Asks the app's process to end."""
        kept = self.kept()
        if kept > 0:
            keeper.tell(kept, signal.SIGTERM)

    def kept(self) -> int:
        """The pid of the app's program; 0 while there is none."""
        return next(iter(linux.children_of(self.pid)), 0)


_LINE_BYTES = 8 * 1024
_PIECE_BYTES = 64 * 1024
#: Before the harness has its own connections it prints little, unless something is wrong.
_EARLY_BYTES = 256 * 1024


class Lines:
    """Reads a pipe line by line. Subclasses choose the lines that are sent to the service."""

    def __init__(self, loop: Loop, descriptor: int, stream: str, say: Callable[[str, Any], None]) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._stream = stream
        self._say = say
        self._rest = b""
        os.set_blocking(descriptor, False)
        self._watch()

    def _take(self, line: bytes) -> None:
        raise NotImplementedError

    def _after(self, is_over: bool) -> None:
        """Called after the received lines were taken."""

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
    """Sends the first lines of the harness."""

    _left_bytes = _EARLY_BYTES

    def _take(self, line: bytes) -> None:
        self._left_bytes -= len(line) + 1
        if self._left_bytes > 0:
            self._tell(line)
