"""The outer keeper: the only process of an app that is not behind its walls.

It reads its plan, starts the app's interpreter inside, and stays outside: it answers at the door, and when the app or
the service ends, it ends everything that is left.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import sys

from millrace_worker import keeper, linux

from . import namespaces, walls
from .door import Door
from .plan import Plan, parse

# Not at run time: each start of an app waits for this file's imports.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, NoReturn

#: Where the app's first process finds the door, or a program its input.
_DESCRIPTOR = 3
#: What a shell exits with when it could not run a program.
_NOT_STARTED = 127


def main() -> None:
    """Reads a plan from stdin (nothing of it may show in `ps`), then keeps what it describes."""
    owner = os.getppid()
    linux.close_inherited(3)
    plan = parse(sys.stdin.buffer.read())
    lifeline, held = os.pipe()
    birth = namespaces.fork_apart if walls.needs_namespaces(plan) else os.fork
    if plan.home is None:
        _keep_program(plan, owner, birth, lifeline, held)
    outer, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door = Door(outer, plan.home)

    def ward() -> None:
        outer.close()
        os.close(held)
        _require_keeper(lifeline)
        order, order_end = os.pipe()
        os.write(order_end, (plan.order or "").encode() + b"\n")
        walls.raise_around(plan)
        _become(plan, order, inner.fileno())

    def wait_for(child: int) -> int:
        inner.close()
        os.close(lifeline)
        return _answer_until_end(child, door)

    keeper.keep(ward, owner, birth, wait_for)


def _keep_program(plan: Plan, owner: int, birth: Callable[[], int], lifeline: int, held: int) -> NoReturn:
    """A program that does not call home: a step of a build, a file that runs once."""

    def ward() -> None:
        os.close(held)
        _require_keeper(lifeline)
        given = None if plan.input is None else _held_in_file(plan.input, plan.scratch)
        walls.raise_around(plan)
        null = os.open(os.devnull, os.O_RDONLY)
        if walls.needs_namespaces(plan):
            # The first process of a namespace gets no signal that it does not handle, and inherits every orphan.
            keeper.keep(lambda: _become(plan, null, given), os.getppid())
        _become(plan, null, given)

    keeper.keep(ward, owner, birth)


def _held_in_file(text: str, scratch: str) -> int:
    """A descriptor to read a text from that may be larger than a pipe takes; no other process finds its file."""
    path = scratch + "/.input"
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    os.write(held, os.fsencode(text))
    os.lseek(held, 0, os.SEEK_SET)
    return held


def _require_keeper(lifeline: int) -> None:
    """Ends this process if its keeper has: in a namespace of its own it cannot tell by its parent's id."""
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    if poll.poll(0):
        os._exit(_NOT_STARTED)
    os.close(lifeline)


def _become(plan: Plan, stdin: int, given: int | None) -> NoReturn:
    """The program of the plan, behind the walls that stand; `given` is what it gets besides stdin and its output."""
    try:
        os.chdir(plan.bundle)
        os.dup2(stdin, 0)
        if given is not None:
            os.dup2(given, _DESCRIPTOR)
            os.set_inheritable(_DESCRIPTOR, True)
        os.execve(plan.program, [plan.program, *plan.arguments], plan.variables)
    except OSError as error:
        is_large = error.errno == errno.E2BIG
        why = "its secrets are too large to pass as environment variables" if is_large else str(error)
        print("the app cannot start: " + why, file=sys.stderr, flush=True)
        os._exit(_NOT_STARTED)


def _answer_until_end(child: int, door: Door) -> int:
    """Answers at the door until the child has ended; gives its wait status."""
    ended, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    is_open = True
    while True:
        status = _bury(child)
        if status is not None:
            return status
        pause = door.pause_seconds()
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        if is_open and pause == 0:
            poll.register(door, select.POLLIN)
        for descriptor, _ in poll.poll(pause * 1000 if is_open and pause else None):
            if descriptor == ended.fileno():
                ended.recv(4096)
            else:
                is_open = door.answer()


def _bury(child: int) -> int | None:
    """Buries whoever has ended, orphans too; the child's wait status if it is among them."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return status
        if pid == 0:
            return None
