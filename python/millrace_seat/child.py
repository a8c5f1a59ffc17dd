"""The harness below the agent: started as a service starts it on its own machine."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from millrace_worker import keeper

from .loop import IN, Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

_PYTHON_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_START = "import sys; sys.path[:1] = [%s]; from millrace_worker.start import main; main()" % json.dumps(_PYTHON_DIR)

#: What an app may see of the environment of its seat; the services show it no more of theirs.
ALLOWED = (
    "PATH",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)
_LINE_BYTES = 8 * 1024
#: What is printed before the harness has its own connections is little, unless something is wrong.
_PRINTED_BYTES = 256 * 1024


def environment_of(variables: dict[str, str], storage: str, environment: str | None) -> dict[str, str]:
    """What the app's processes find in their environment."""
    found = {"LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
    found.update({name: os.environ[name] for name in ALLOWED if name in os.environ})
    if environment is not None:
        found["VIRTUAL_ENV"] = environment
        found["PATH"] = os.path.join(environment, "bin") + os.pathsep + found.get("PATH", os.defpath)
    found["HF_HOME"] = os.path.join(storage, ".cache", "huggingface")
    found.update(variables)
    found["PERSISTENT_STORAGE"] = storage
    return found


class Child:
    """A keeper, and below it a template or a replica."""

    def __init__(
        self,
        loop: Loop,
        python: str,
        order: dict[str, Any],
        variables: dict[str, str],
        on_printed: Callable[[str, str], None],
    ) -> None:
        self._loop = loop
        self._on_printed = on_printed
        self._left_bytes = _PRINTED_BYTES
        self._partial: dict[int, bytes] = {}
        order_read, order_write = os.pipe()
        pipes = {"stdout": os.pipe(), "stderr": os.pipe()}
        try:
            self.pid = os.posix_spawn(
                python,
                [python, "-c", _START],
                variables,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, order_read, 0),
                    (os.POSIX_SPAWN_DUP2, pipes["stdout"][1], 1),
                    (os.POSIX_SPAWN_DUP2, pipes["stderr"][1], 2),
                ],
                setsigdef=[signal.SIGPIPE],
            )
        except OSError:
            for descriptor in (order_write, pipes["stdout"][0], pipes["stderr"][0]):
                os.close(descriptor)
            raise
        finally:
            for descriptor in (order_read, pipes["stdout"][1], pipes["stderr"][1]):
                os.close(descriptor)
        for stream, (readable, _) in pipes.items():
            self._listen(stream, readable)
        try:
            os.write(order_write, json.dumps(order).encode() + b"\n")
        except OSError:
            pass  # It died before it read: its end tells.
        os.close(order_write)

    def end(self) -> None:
        """Asks the keeper to end all that is below it."""
        keeper.tell(self.pid, signal.SIGTERM)

    def _listen(self, stream: str, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._partial[descriptor] = b""
        self._loop.watch(descriptor, IN, lambda events: self._read(stream, descriptor))

    def _read(self, stream: str, descriptor: int) -> None:
        try:
            data = os.read(descriptor, 64 * 1024)
        except BlockingIOError:
            return
        *lines, rest = (self._partial[descriptor] + data).split(b"\n")
        if not data or len(rest) > _LINE_BYTES:
            lines, rest = lines + [rest] * (len(rest) > 0), b""
        self._partial[descriptor] = rest
        for line in lines:
            self._left_bytes -= len(line)
            if self._left_bytes > 0:
                self._on_printed(stream, line[:_LINE_BYTES].decode("utf-8", "replace"))
        if not data:
            self._loop.forget(descriptor)
            os.close(descriptor)
