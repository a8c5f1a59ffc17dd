"""Which call the running code belongs to: what `millrace.run` tells, beside the run's id."""

from __future__ import annotations

from contextvars import ContextVar
from time import time

from .logs import CURRENT_RUN

TYPE_CHECKING = False
if TYPE_CHECKING:
    #: Its attempt, its limit in milliseconds (0: none), and the Unix time at which it began.
    Begun = tuple[int, int, float]

#: Instead of one call: a batch of several.
SEVERAL: Begun = (0, 0, 0.0)
#: Valid while `CURRENT_RUN` names a run, and while it is `SEVERAL`. What begins a call sets it, so it may be outdated.
CURRENT_CALL: ContextVar[Begun | None] = ContextVar("millrace_call", default=None)


def enter(attempt: int, limit_ms: int) -> None:
    """Notes the call that the code of this thread or task runs from now on."""
    CURRENT_CALL.set((attempt, limit_ms, time()))


def current() -> tuple[str, Begun]:
    """The run that the caller's code belongs to. Raises RuntimeError outside any, and in a batch of several calls."""
    call = CURRENT_CALL.get()
    if call is SEVERAL:
        raise RuntimeError(
            "millrace.run is of one run, and this code runs for several at once: give the function a parameter run_id,"
            " which gets the list of their ids"
        )
    run_id = CURRENT_RUN.get()
    if not run_id or call is None:
        raise RuntimeError("millrace.run is known only inside a run: this code was not called for one")
    return run_id, call
