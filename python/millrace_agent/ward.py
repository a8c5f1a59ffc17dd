"""The process that raises walls around itself and becomes the app.

On the service's own machine it is a fork of the agent; in a remote seat the agent starts it as a program, so that its
memory has nothing that the agent knows.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import sys

from millrace_walls import walls
from millrace_walls.plan import Plan, parse
from millrace_worker import keeper, linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

#: The door for the app's first process, the input for a program, the service for the agent.
DESCRIPTOR = 3
#: Inherited only if this is started as a program: a socket to its agent, and a pipe that closes when the agent dies.
TOLD, LIFELINE = 4, 5
_NOT_STARTED = 127
_PID_BYTES = 32


def main() -> None:
    """Reads a plan from stdin, and sends the agent the pid of the process that becomes the app. With namespaces that is
    a clone: this process then ends, so that the agent, which adopts orphans, becomes the clone's parent.
    """
    plan = parse(sys.stdin.buffer.read())
    linux.close_inherited(LIFELINE + 1)
    waits, ends = os.pipe()
    pid = walls.fork(plan) if plan.has_namespaces else 0
    told = socket.socket(fileno=TOLD)
    if pid > 0 or not plan.has_namespaces:
        told.send(b"%d" % (pid or os.getpid()))
    if pid > 0:
        os._exit(0)
    os.close(ends)
    if plan.has_namespaces:
        os.read(waits, 1)  # Returns when the process above has ended, and the agent is the parent.
    os.close(waits)
    os.setsid()
    keeper.live(lambda: become(plan, socket.socket(fileno=DESCRIPTOR), told, LIFELINE))


def run() -> None:
    """Becomes a keeper and runs a program without walls. `sys.argv` is `-c`, the folder, the program and its arguments.
    The agent's pid comes on stdin, so that the keeper notices an agent that has died already.
    """
    said = os.read(0, _PID_BYTES)
    if not said:
        os._exit(1)
    linux.lead_nowhere(0)
    linux.close_inherited(3)
    os.chdir(sys.argv[1])
    keeper.keep(lambda: _run(*sys.argv[2:]), int(said))


def _run(program: str, *arguments: str) -> NoReturn:
    try:
        os.execvp(program, [program, *arguments])
    except OSError as error:
        _give_up_on(program, error)


def become(plan: Plan, door: socket.socket, told: socket.socket, lifeline: int) -> None:
    """Becomes the program of the plan, behind its walls."""
    if plan.order is None:
        stdin = os.open(os.devnull, os.O_RDONLY)
    else:
        stdin, tell = os.pipe()
        os.write(tell, plan.order.encode() + b"\n")
        os.close(tell)
    given = door.fileno()
    if plan.home is None:
        given = -1 if plan.input is None else _held_in_file(plan.input, plan.scratch)
    from millrace_walls.places import Interpreter

    interpreter = None if plan.interpreter is None else Interpreter(plan.interpreter)
    # Checked before the walls too: behind them, a hidden file looks missing.
    why = interpreter and interpreter.why_not()
    listener = walls.raise_around(plan)
    # Again, because the kernel drops the parent-death signal when a process changes its user. In a namespace of its own
    # the parent's pid is 0, so the lifeline tells whether the agent has died already.
    linux.die_with_parent(os.getppid())
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    if poll.poll(0):
        os._exit(_NOT_STARTED)
    os.close(lifeline)
    why = why or (interpreter and interpreter.why_not())
    if why:
        _give_up(why)
    with told:
        if listener is not None:
            socket.send_fds(told, [b"\n"], [listener])
            os.close(listener)
    if plan.home is None and plan.has_namespaces:
        # The first process of a namespace gets only signals that it handles, and adopts every orphan. The harness has a
        # keeper for that; other programs need one.
        keeper.keep(lambda: _execute(plan, stdin, given), os.getppid())
    _execute(plan, stdin, given)


def _execute(plan: Plan, stdin: int, given: int) -> NoReturn:
    """`given` is a further descriptor for the program; -1 for none."""
    try:
        os.chdir(plan.bundle)
        os.dup2(stdin, 0)
        if given >= 0:
            os.dup2(given, DESCRIPTOR)
            os.set_inheritable(DESCRIPTOR, True)
        else:
            os.close(DESCRIPTOR)
        # A server's program is looked up on the app's PATH.
        execute = os.execvpe if plan.server is not None else os.execve
        execute(plan.program, [plan.program, *plan.arguments], plan.variables)
    except OSError as error:
        if error.errno == errno.E2BIG:
            _give_up("its secrets are too large to pass as environment variables")
        if plan.server is None:
            _give_up(str(error))
        _give_up_on(plan.program, error)


def _give_up_on(program: str, error: OSError) -> NoReturn:
    """Exits as a shell does: 127 if there is no such program, 126 if it cannot be run."""
    _give_up("%s: %s" % (program, error.strerror), 127 if isinstance(error, FileNotFoundError) else 126)


def _give_up(why: str, code: int = _NOT_STARTED) -> NoReturn:
    print("the app cannot start: " + why, file=sys.stderr, flush=True)
    os._exit(code)


def _held_in_file(text: str, scratch: str) -> int:
    """A descriptor of a nameless file with a text that may be larger than a pipe holds."""
    if scratch:
        path = scratch + "/.input"
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink(path)
    else:
        held = os.memfd_create("input")
    os.write(held, os.fsencode(text))
    os.lseek(held, 0, os.SEEK_SET)
    return held
