"""The process above a replica or a template: when that ends, everything it started ends too.

A keeper is a subreaper: what its ward started and detached, such as a daemon that forked twice, becomes the keeper's
own child and is killed before the keeper ends.
"""

from __future__ import annotations

import os
import signal
import time

from . import linux

# Not at run time: each start of an app waits for this file's imports.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, NoReturn

#: Above a replica: its keeper, the template, and the agent or, in a namespace of its own, the first keeper there.
_LEVELS = 3
#: The wait status of a process that has exited with 1.
_FAILED = 1 << 8
#: What is killed takes a moment to be gone.
PAUSE_SECONDS = 0.002


class _Ended(BaseException):
    """SIGTERM: the owner died, or wants the ward gone."""


def keep(
    ward: Callable[[], None],
    owner: int,
    birth: Callable[[], int] = os.fork,
    wait_for: Callable[[int], int] | None = None,
) -> NoReturn:
    """Runs `ward` in a child of its own and stays until all of it is gone; exits as the ward did.

    `birth` makes the child, as a fork does; `wait_for` stays until it has ended, and gives its wait status.
    """
    linux.adopt_orphans()
    handler = signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    status = signal.SIGKILL
    try:
        try:
            linux.die_with_parent(owner, signal.SIGTERM)
            keeper = os.getpid()
            child = birth()
            if child == 0:
                live(lambda: _begin(ward, keeper, handler))
            # A keeper that held its ward's log sockets open would hide the ward's end from the service.
            linux.lead_nowhere(0, 1, 2)
            status = (wait_for or _wait_for)(child)
        except _Ended:
            pass
        except Exception:  # noqa: BLE001 - whatever went wrong here, nothing that was started outlives it
            import traceback

            traceback.print_exc()
            status = _FAILED
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except _Ended:
        # It came once more, or just as the ward ended: the sweep is not left out for that.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sweep()
    os._exit(exit_code(status))


def sweep() -> None:
    """Kills every child, and the orphans this makes, until none is left."""
    while not is_swept():
        # Not a wait for the end of one: the kernel's list may leave out a child while others come and go.
        time.sleep(PAUSE_SECONDS)


def is_swept() -> bool:
    """Kills every child and reaps those that have ended; whether no child is left that this process can kill."""
    stubborn = 0
    found = 0
    for pid in linux.children():
        found += 1
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        except PermissionError:
            stubborn += 1
    if found and found == stubborn:
        return True  # Only processes of another user are left.
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def tell(pid: int, number: int) -> None:
    """Sends a signal to a child of this process, one that was stopped too."""
    for each in (number, signal.SIGCONT):
        try:
            os.kill(pid, each)
        except (ProcessLookupError, PermissionError):
            pass  # Gone; or another user's, and not ours to signal.


def wake() -> None:
    """In a ward whose service is gone: the kernel has told those above, but a stopped process does not act on it."""
    pid = os.getpid()
    for _ in range(_LEVELS):
        pid = linux.parent_of(pid)
        if pid <= 1:
            return
        tell(pid, signal.SIGCONT)


def exit_code(status: int) -> int:
    """A wait status in one byte, the way a shell tells it: 128 + signal for a killed process."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _end(_number: int, _frame: object) -> None:
    raise _Ended


def _begin(ward: Callable[[], None], keeper: int, handler: Any) -> None:
    signal.signal(signal.SIGTERM, handler)  # What the app set at its import stays the app's.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    linux.die_with_parent(keeper)
    os.setsid()
    ward()


def live(ward: Callable[[], None]) -> NoReturn:
    """The life of a process that is kept: ends with what it was started for, whatever threads are left."""
    code = 1
    try:
        ward()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:  # noqa: BLE001 - the last frame of the process: say it, then end
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _wait_for(child: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return status
