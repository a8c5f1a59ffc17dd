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

from . import walls
from .app_log import AppLog
from .connects import Connects
from .door import Door
from .plan import Plan, parse
from .reach import Interpreter

# Not at run time: each start of an app waits for this file's imports.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

#: Where the app's first process finds the door, or a program its input.
_DESCRIPTOR = 3
#: What a shell exits with when it could not run a program.
_NOT_STARTED = 127


def main() -> None:
    """Reads a plan from stdin (nothing of it may show in `ps`), then keeps what it describes."""
    owner = os.getppid()
    linux.close_inherited(3)
    plan = parse(sys.stdin.buffer.read())
    outer, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    lifeline, held = os.pipe()
    # By which the ward hands over what only it can make: the descriptor on which the kernel asks.
    heard, told = socket.socketpair()
    door = None if plan.home is None else Door(outer, plan.home)
    log = AppLog() if plan.own_port else None

    def ward() -> None:
        outer.close()
        heard.close()
        os.close(held)
        _become(plan, inner, told, lifeline)

    def wait_for(child: int) -> int:
        inner.close()
        told.close()
        os.close(lifeline)
        return _answer_until_end(child, door, _connects(plan, heard, owner, log))

    keeper.keep(ward, owner, lambda: walls.fork(plan), wait_for)


def _held_in_file(text: str, scratch: str) -> int:
    """A descriptor to read a text from that may be larger than a pipe takes; no other process finds its file."""
    path = scratch + "/.input"
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    os.write(held, os.fsencode(text))
    os.lseek(held, 0, os.SEEK_SET)
    return held


def _require_keeper(lifeline: int) -> None:
    """Ends this process with its keeper: in a namespace of its own it cannot tell by its parent's id."""
    # Once more: the kernel forgets it when a process becomes another user's.
    linux.die_with_parent(os.getppid())
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    if poll.poll(0):
        os._exit(_NOT_STARTED)
    os.close(lifeline)


def _connects(plan: Plan, heard: socket.socket, service: int, log: AppLog | None) -> Connects | None:
    """Waits for the walls to stand; None where no call waits for an answer, or the ward has failed."""
    with heard:
        _, descriptors, _, _ = socket.recv_fds(heard, 1, 1, socket.MSG_CMSG_CLOEXEC)
    if not descriptors:
        return None
    return walls.answers(plan, descriptors[0], service, log)


def _become(plan: Plan, door: socket.socket, told: socket.socket, lifeline: int) -> None:
    """The program of the plan, behind its walls."""
    stdin = os.open(os.devnull, os.O_RDONLY) if plan.order is None else _told_by_pipe(plan.order)
    given = door.fileno()
    if plan.home is None:
        given = -1 if plan.input is None else _held_in_file(plan.input, plan.scratch)
    interpreter = None if plan.interpreter is None else Interpreter(plan.interpreter)
    # Here too: what cannot be seen from a new namespace is not there at all behind the walls.
    why = interpreter and interpreter.why_not()
    listener = walls.raise_around(plan)
    _require_keeper(lifeline)
    why = why or (interpreter and interpreter.why_not())
    if why:
        _give_up(why)
    with told:
        if listener is not None:
            socket.send_fds(told, [b"\n"], [listener])
            os.close(listener)
    if plan.home is None and plan.has_namespaces:
        # The first process of a namespace gets no signal that it does not handle, and inherits every orphan. An app's
        # own keeper knows how to be that; another program does not.
        keeper.keep(lambda: _execute(plan, stdin, given), os.getppid())
    _execute(plan, stdin, given)


def _told_by_pipe(order: str) -> int:
    told, tell = os.pipe()
    os.write(tell, order.encode() + b"\n")
    os.close(tell)
    return told


def _execute(plan: Plan, stdin: int, given: int) -> NoReturn:
    """`given` is what it gets besides stdin and its output; -1 for nothing."""
    try:
        os.chdir(plan.bundle)
        os.dup2(stdin, 0)
        if given >= 0:
            os.dup2(given, _DESCRIPTOR)
            os.set_inheritable(_DESCRIPTOR, True)
        os.execve(plan.program, [plan.program, *plan.arguments], plan.variables)
    except OSError as error:
        is_large = error.errno == errno.E2BIG
        why = "its secrets are too large to pass as environment variables" if is_large else str(error)
        _give_up(why)


def _give_up(why: str) -> NoReturn:
    print("the app cannot start: " + why, file=sys.stderr, flush=True)
    os._exit(_NOT_STARTED)


def _answer_until_end(child: int, door: Door | None, connects: Connects | None) -> int:
    """Answers at the door, and whoever wants to connect, until the child has ended; gives its wait status."""
    ended, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    while True:
        status = _bury(child)
        if status is not None:
            return status
        pause = door.pause_seconds() if door else 0
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        if door is not None and pause == 0:
            poll.register(door, select.POLLIN)
        if connects is not None:
            poll.register(connects, select.POLLIN)
        due = connects.pause_seconds() if connects else None
        waits = [each for each in (pause or None, due) if each is not None]
        for descriptor, _ in poll.poll(min(waits) * 1000 if waits else None):
            if descriptor == ended.fileno():
                ended.recv(4096)
            elif door is not None and descriptor == door.fileno() and not door.answer():
                door = None
        if connects is not None and not connects.work():
            connects = None


def _bury(child: int) -> int | None:
    """Buries whoever has ended, orphans too; the child's wait status if it is among them."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return status
        if pid == 0:
            return None
