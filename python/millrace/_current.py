"""The run that code belongs to, as the harness knows it, and what the code tells of it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Any


class CurrentRun:
    """Of the code that reads it: of a call, and of what the call starts in threads with a copy of its context.
    Everything here raises RuntimeError outside a run, and in a batch of several."""

    __slots__ = ()

    @property
    def id(self) -> str:
        """The run's id, which is also its `X-Request-Id`."""
        return _current()[0]

    @property
    def attempt(self) -> int:
        """1 the first time, and one more each time that it is tried again."""
        return _current()[1][0]

    @property
    def deadline(self) -> float | None:
        """The Unix time at which the service gives up on the run; None if it never does."""
        _, (_, limit_ms, began_at, *_) = _current()
        return began_at + limit_ms / 1000 if limit_ms else None

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context that the run belongs to, for requests to other services; None if it has no trace."""
        return self._trace()[0]

    @property
    def tracestate(self) -> str | None:
        """What others have added to the trace, to be passed on with `traceparent`; None if there is nothing."""
        return self._trace()[1]

    def _trace(self) -> tuple[str | None, str | None]:
        traced = _current()[1][5]
        if traced is None:
            return None, None
        from millrace_worker.traces import headers_of

        return headers_of(traced)

    @property
    def checkpoint(self) -> Any:
        """A copy of the value that an earlier attempt last gave to `millrace.checkpoint`; None if none did."""
        resumed = _current()[1][4]
        if resumed is None:
            return None
        import json

        return json.loads(resumed[16:].decode())

    @property
    def checkpoint_sent(self) -> int:
        """How many chunks were stored with that checkpoint."""
        return self._counted(8)

    @property
    def sent(self) -> int:
        """How many chunks of earlier attempts are stored, after which this one numbers its own. 0 without one."""
        return self._counted(0)

    def _counted(self, at: int) -> int:
        resumed = _current()[1][4]
        return int.from_bytes(resumed[at : at + 8], "little") if resumed else 0

    def __repr__(self) -> str:
        try:
            return "<millrace.run %s, attempt %d>" % (self.id, self.attempt)
        except RuntimeError:
            return "<millrace.run outside a run>"


def checkpoint(value: Any) -> Awaitable[None]:
    """Stores a JSON value of at most 1 MiB, from which the next attempt of an async run can continue, and all chunks
    yielded so far. Returns when they are stored; inside `async def` await what it returns. Does nothing if a caller
    waits for the run.
    """
    try:
        from millrace_worker.checkpoints import checkpoint as store
    except ImportError:
        raise RuntimeError("millrace.checkpoint works only inside a run: %s" % _NO_SERVICE) from None
    return store(value)


def progress(fraction: float | None, message: str | None = None) -> None:
    """Says how far the run is, from 0 to 1 or None if that is unknown, and what it does. Never waits; of many reports
    in a row the newest counts. Does nothing outside a run.
    """
    try:
        from millrace_worker.checkpoints import progress as report
    except ImportError:
        return
    report(fraction, message)


_NO_SERVICE = "a Millrace service does not run this code"


def _current() -> tuple[str, tuple[int, int, float, int, bytes | None, bytes | None]]:
    try:
        from millrace_worker.current import current
    except ImportError:
        raise RuntimeError("millrace.run is known only inside a run: %s" % _NO_SERVICE) from None
    run_id, begun = current()
    return str(run_id), begun
