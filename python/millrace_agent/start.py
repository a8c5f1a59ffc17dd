"""Where an agent begins: it reads its order, and lives by it."""

from __future__ import annotations

import json
import os
import resource
import sys

from millrace_worker import keeper, linux

from .agent import Agent
from .order import SeatOrder


def choose() -> str:
    """Where it is to be. `tempfile` would do, but its imports take as long as a connection to the service."""
    return os.path.join(os.environ.get("TMPDIR", "/tmp"), "millrace-seat-" + os.urandom(8).hex())


def remove(folder: str) -> None:
    """With everything in it, as far as that can be."""
    import shutil

    # Each before it is looked into: an app may have closed it to itself, and the kernel closes folders of its own.
    for place, names, _ in os.walk(folder):
        for path in (os.path.join(place, name) for name in names):
            try:
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
            except OSError:
                pass  # What cannot be removed is the place's to remove.
    shutil.rmtree(folder, ignore_errors=True)


_MAX_ORDER_BYTES = 1024 * 1024
_DESCRIPTORS = 16 * 1024


def main() -> None:
    """Reads the order from the file that is named, or from stdin. Ends with everything that it has started."""
    linux.keep_private()
    linux.adopt_orphans()
    _raise_limit()
    order = SeatOrder(json.loads(_read()))
    # Whoever starts the agent may choose it, to remove what an agent that was killed has left.
    folder = order.folder or choose()
    os.mkdir(folder, 0o700)
    code = 1
    try:
        os.chdir(folder)
        code = Agent(order, folder).run()
    except BaseException:  # noqa: BLE001 - the last frame of the process: say it, then end
        import traceback

        traceback.print_exc()
    finally:
        keeper.sweep()
        _remove(folder, order.neighbours)
        # Not by a return: a thread may still fetch what nobody wants any more.
        os._exit(code)


def _raise_limit() -> None:
    """Each connection of the harness takes two descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _read() -> bytes:
    if len(sys.argv) > 1:
        with open(sys.argv[1], "rb") as file:
            text = file.read(_MAX_ORDER_BYTES)
    else:
        text = sys.stdin.buffer.readline(_MAX_ORDER_BYTES)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return text


def _remove(folder: str, neighbours: str | None) -> None:
    os.chdir("/")
    remove(folder)
    if neighbours is not None and os.path.exists(neighbours):
        os.unlink(neighbours)
