"""The process above a replica or a template: when that ends, the keeper ends everything that it started.

A keeper is a subreaper: detached descendants, such as a daemon that forked twice, become its own children.
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
    """SIGTERM: the owner has died, or ends the ward."""


def keep(
    ward: Callable[[], None],
    owner: int,
    birth: Callable[[], int] = os.fork,
    wait_for: Callable[[int], int] | None = None,
) -> NoReturn:
    """Runs `ward` in a child, waits until everything below is gone, and exits with the ward's code. `birth` makes the
    child, like a fork; `wait_for` waits for its end and returns its wait status.
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
            # Open log sockets would hide the ward's end from the service.
            linux.lead_nowhere(0, 1, 2)
            status = (wait_for or _wait_for)(child)
        except _Ended:
            pass
        except Exception:  # noqa: BLE001 - nothing that was started may outlive a fault here
            import traceback

            traceback.print_exc()
            status = _FAILED
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except _Ended:
        # The signal came once more, or just as the ward ended; the sweep still follows.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sweep()
    os._exit(exit_code(status))


def sweep() -> None:
    """Kills every child, and the orphans this makes, until none is left."""
    while not is_swept():
        # Without waiting for one to end: the kernel's list may lack a child while others come and go.
        time.sleep(PAUSE_SECONDS)


def is_swept() -> bool:
    """Kills every child and reaps zombies; returns whether no child is left that this process can kill."""
    stubborn = 0
    found = linux.children_of(os.getpid())
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        except PermissionError:
            stubborn += 1
    if found and len(found) == stubborn:
        return True  # Only processes of another user are left.
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def tell(pid: int, number: int) -> None:
    """Sends a signal to a process, even if it is stopped."""
    for each in (number, signal.SIGCONT):
        try:
            os.kill(pid, each)
        except (ProcessLookupError, PermissionError):
            pass  # It has ended, or belongs to another user.


def wake() -> None:
    """Continues stopped processes above a ward whose service is gone, so that they handle the kernel's signal."""
    pid = os.getpid()
    for _ in range(_LEVELS):
        pid = linux.parent_of(pid)
        if pid <= 1:
            return
        tell(pid, signal.SIGCONT)


def exit_code(status: int) -> int:
    """A wait status as an exit code, as in a shell: 128 + signal for a killed process."""
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
    """Runs the ward in this process and exits, whatever threads are left."""
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
