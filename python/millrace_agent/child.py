"""A process below the agent, and what it finds in its environment."""

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

#: What an app may see of the environment of its seat; the services show it no more of theirs.
ALLOWED = (
    *("PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"),
    *("CUDA_VISIBLE_DEVICES", "SSL_CERT_FILE", "SSL_CERT_DIR"),
)


def environment_of(
    variables: dict[str, str], storage: str, environment: str | None, scratch: str | None = None
) -> dict[str, str]:
    """What the app's processes find in their environment. With `scratch`, the home of the seat's user is not theirs."""
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
    """Makes a folder below that one in which the interpreter has the names that commands call it by.

    The place may know it by one of them only, by none, or know another interpreter by them.
    """
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
        """`given` is what it reads from stdin; `more` has further descriptors, by the number that it finds them at."""
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
            pass  # It died before it read: its end tells.
        os.close(order_write)

    @property
    def top(self) -> int:
        """The process that all of it is below."""
        return self.pid

    def work(self) -> None:
        """Does what is due, once in a while."""

    def status_of_end(self, pid: int, status: int) -> int | None:
        """The wait status of all of it, if that child of the agent was the last of it."""
        return status if pid == self.pid else None

    def end(self) -> None:
        keeper.tell(self.pid, signal.SIGTERM)

    def ask(self) -> None:
        """Asks the process that is kept to end by itself."""
        kept = self.kept()
        if kept > 0:
            keeper.tell(kept, signal.SIGTERM)

    def kept(self) -> int:
        """The process that runs the app's program; 0 while there is none."""
        return next(iter(linux.children_of(self.pid)), 0)


_LINE_BYTES = 8 * 1024
_PIECE_BYTES = 64 * 1024
#: What is printed before the harness has its own connections is little, unless something is wrong.
_EARLY_BYTES = 256 * 1024


class Lines:
    """What comes out of a pipe, line by line. Subclasses say which lines are sent to the service."""

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
