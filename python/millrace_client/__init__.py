"""Calls the apps of a Millrace service. Needs only the standard library of Python 3.9 or newer.

Reading order: errors (what is raised), transport (one request and its response), events (the messages of an event
stream), reader (a stream that survives broken connections), run (a run and its stream), terms (what runs ask of the
queue), batch_upload and batches (many runs), client (calling an app). webhooks stands on its own.
"""

from .batches import Batch, Batches, BatchResult
from .client import Millrace
from .errors import (
    AppFailed,
    Busy,
    Cancelled,
    ConnectionLost,
    InvalidArguments,
    InvalidWebhook,
    MillraceError,
    NotFound,
    NotReady,
    TimedOut,
    Unauthorized,
)
from .run import Run, RunResult, StillRunning, Stream
from .webhooks import verify_webhook

__all__ = [
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
    "NotFound",
    "NotReady",
    "Run",
    "RunResult",
    "StillRunning",
    "Stream",
    "TimedOut",
    "Unauthorized",
    "verify_webhook",
]
