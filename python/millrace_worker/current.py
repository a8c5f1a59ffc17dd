"""Which call the running code belongs to: what `millrace.run` tells of it, beside the run's id."""

from __future__ import annotations

from time import time

from .logs import CURRENT_RUN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    #: A call's attempt, its limit in milliseconds (0: none), and the Unix time from which that counts; its id on the
    #: wire, 0 if it came in a batch; the payloads of its RESUME and its TRACE.
    Begun = tuple[int, int, float, int, Optional[bytes], Optional[bytes]]


class RunCancelled(BaseException):
    """Raised inside the user's code by a cancel; `except Exception` does not catch it."""


class RunId(str):
    """The id of a run, as `CURRENT_RUN` has it while its call runs: a second context variable would cost more."""

    __slots__ = ("begun", "is_over")
    #: Set when the call's last frame is about to be sent.
    is_over: bool
    #: None for calls that run together. The id, that of the first, is then only for what they print.
    begun: Begun | None


def of_call(
    run_id: str,
    attempt: int,
    limit_ms: int,
    call_id: int = 0,
    resumed: bytes | None = None,
    traced: bytes | None = None,
) -> RunId:
    """The run of a call that begins now."""
    named = RunId(run_id)
    named.begun = (attempt, limit_ms, time(), call_id, resumed, traced)
    return named


def of_several(run_id: str) -> RunId:
    """For calls that run together, and print as this one."""
    named = RunId(run_id)
    named.begun = None
    return named


def current() -> tuple[RunId, Begun]:
    """The run that the caller's code belongs to. Raises RuntimeError outside any, and in a batch of several calls."""
    run_id = CURRENT_RUN.get()
    if not isinstance(run_id, RunId):
        raise RuntimeError("millrace.run is known only inside a run: this code was not called for one")
    if run_id.begun is None:
        raise RuntimeError(
            "millrace.run is of one run, and this code runs for several at once: give the function a parameter run_id,"
            " which gets the list of their ids"
        )
    return run_id, run_id.begun
