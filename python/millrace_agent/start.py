"""Starts the agent of a seat."""

from __future__ import annotations

import json
import os
import resource
import sys

from millrace_worker import keeper, linux

from .agent import Agent
from .order import SeatOrder


def choose() -> str:
    """A folder for an agent. Importing `tempfile` would take as long as connecting to the service."""
    return os.path.join(os.environ.get("TMPDIR", "/tmp"), "millrace-seat-" + os.urandom(8).hex())


def remove(folder: str) -> None:
    """Removes a folder with everything in it, as far as possible."""
    import shutil

    # First: apps, and the kernel, make folders that their owner may not read.
    for place, names, _ in os.walk(folder):
        for path in (os.path.join(place, name) for name in names):
            try:
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
            except OSError:
                pass  # Then its pod or machine has to remove it.
    shutil.rmtree(folder, ignore_errors=True)


_MAX_ORDER_BYTES = 1024 * 1024
_DESCRIPTORS = 16 * 1024


def main() -> None:
    """Reads the order from the named file, or from stdin. At its end it ends everything that it has started."""
    linux.keep_private()
    linux.adopt_orphans()
    # Each connection of the harness takes two descriptors.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    order = SeatOrder(json.loads(_read()))
    # The starter of the agent may have chosen it, to remove what a killed agent leaves.
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
        os.chdir("/")
        remove(folder)
        if order.neighbours is not None and os.path.exists(order.neighbours):
            os.unlink(order.neighbours)
        os._exit(code)  # A thread may still fetch something.


def _read() -> bytes:
    if len(sys.argv) > 1:
        with open(sys.argv[1], "rb") as file:
            text = file.read(_MAX_ORDER_BYTES)
    else:
        text = sys.stdin.buffer.readline(_MAX_ORDER_BYTES)
    linux.lead_nowhere(0)
    return text
