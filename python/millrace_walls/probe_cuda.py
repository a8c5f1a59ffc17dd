"""Starts CUDA behind the walls of this host, and finds out which wall stops it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from typing import Any

from . import walls
from .plan import Plan
from .probe import give_folders, plan_in

#: What every framework does first. The last line that it prints is the outcome.
PROGRAM = """
import ctypes, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    print("the driver's library cannot be loaded: %s" % error)
    sys.exit()
def require(name, code):
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(text))
        print("%s fails with %d (%s)" % (name, code, (text.value or b"unknown").decode()))
        sys.exit()
require("cuInit", cuda.cuInit(0))
context, device = ctypes.c_void_p(), ctypes.c_int()
require("cuDeviceGet", cuda.cuDeviceGet(ctypes.byref(device), 0))
require("cuDevicePrimaryCtxRetain", cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
print("started")
"""
_STARTED = "started"
_MAX_BYTES = 4096


def main() -> None:
    """Reads from stdin what `probe` reads, a level, whether the kernel can ask the keeper, and variables of apps.

    Prints why CUDA does not start without walls and behind them, or null, and which walls are in the way.
    """
    asked = json.loads(sys.stdin.buffer.readline())
    bare = _told(asked, {**asked, "level": "process"}, frozenset())
    walled = _told(asked, asked, walls.EVERY) if bare is None and asked["level"] else None
    culprits = [name for name in sorted(walls.EVERY) if _told(asked, asked, frozenset({name}))] if walled else []
    print(json.dumps({"bare": bare, "walled": walled, "walls": culprits}))


def _told(asked: dict[str, Any], host: dict[str, Any], raised: frozenset[str]) -> str | None:
    """Why CUDA does not start behind those walls; None if it does."""
    more = [("notifier", "true")] if asked["has_notifier"] else []
    plan = plan_in(os.path.join(asked["folder"], "-".join(["cuda", *sorted(raised)])), host, *more)
    give_folders(plan)
    plan.variables.update(asked["variables"], HOME=plan.scratch, TMPDIR=plan.scratch)
    heard, told = socket.socketpair()
    printed, prints = os.pipe()
    child = walls.fork(plan) if "namespaces" in raised else os.fork()
    if child == 0:
        heard.close()
        os.close(printed)
        _start(plan, raised, told, prints)
    told.close()
    os.close(prints)
    try:
        said = _said(plan, heard, printed).strip().split("\n")[-1]
    finally:
        os.close(printed)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return None if said == _STARTED else said or "the process that tried it ended without a word"


def _start(plan: Plan, raised: frozenset[str], told: socket.socket, prints: int) -> None:
    try:
        listener = walls.raise_around(plan, raised)
        socket.send_fds(told, [b"\n"], [listener] if listener is not None else [])
        os.dup2(prints, 1)
        os.execve(plan.program, [plan.program, "-I", "-S", "-c", PROGRAM], plan.variables)
    except OSError as error:
        os.write(prints, str(error).encode())
    finally:
        os._exit(1)


def _said(plan: Plan, heard: socket.socket, printed: int) -> str:
    """What the program prints, while its system calls are answered."""
    with heard:
        _, descriptors, _, _ = socket.recv_fds(heard, 1, 1, socket.MSG_CMSG_CLOEXEC)
    answers = walls.answers(plan, descriptors[0], 0) if descriptors else None
    text = b""
    while len(text) < _MAX_BYTES:
        poll = select.poll()
        poll.register(printed, select.POLLIN)
        if answers is not None:
            poll.register(answers, select.POLLIN)
        pause = None if answers is None else answers.pause_seconds()
        ready = dict(poll.poll(None if pause is None else pause * 1000))
        if answers is not None and not answers.work():
            answers = None
        if printed in ready:
            part = os.read(printed, _MAX_BYTES)
            if not part:
                break
            text += part
    return text.decode(errors="replace")
