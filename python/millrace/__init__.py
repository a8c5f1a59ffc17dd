"""For apps: `run`, the run that the code belongs to; `checkpoint`, from which the next attempt continues; `progress`,
which says how far the run is; `NoRetry`, to fail without a further attempt; `SKIP` and `END`, for generators and
steppers of batched calls.
For everyone else: the client of `millrace_client`, under this name too.

Inside a run it is there without being installed. Needs only the standard library of Python 3.9 or newer.
"""

from __future__ import annotations

from ._current import CurrentRun, checkpoint, progress

try:  # Inside a run the harness knows these.
    from millrace_worker.signs import END, SKIP, NoRetry
except ImportError:  # The wheel holds a copy of that file.
    from ._signs import END, SKIP, NoRetry  # pyright: ignore[reportMissingImports]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from millrace_client import (
        AppFailed,
        Batch,
        Batches,
        BatchResult,
        Busy,
        Cancelled,
        ConnectionLost,
        InvalidArguments,
        InvalidWebhook,
        Millrace,
        MillraceError,
        NotFound,
        NotReady,
        Run,
        RunResult,
        StillRunning,
        Stream,
        TimedOut,
        Unauthorized,
        verify_webhook,
    )

__all__ = [
    "END",
    "SKIP",
    "AppFailed",
    "Batch",
    "BatchResult",
    "Batches",
    "Busy",
    "Cancelled",
    "ConnectionLost",
    "InvalidArguments",
    "InvalidWebhook",
    "Millrace",
    "MillraceError",
    "NoRetry",
    "NotFound",
    "NotReady",
    "Run",
    "RunResult",
    "StillRunning",
    "Stream",
    "TimedOut",
    "Unauthorized",
    "checkpoint",
    "progress",
    "run",
    "verify_webhook",
]

#: The run that the caller's code belongs to.
run = CurrentRun()


if not TYPE_CHECKING:  # Which would take any name for one of the module's.

    def __getattr__(name: str) -> object:
        # Few apps call others, and the client imports http.client and ssl: 30 ms.
        if name.startswith("_") or name not in __all__:
            raise AttributeError("module %r has no attribute %r" % (__name__, name))
        import millrace_client

        return getattr(millrace_client, name)
