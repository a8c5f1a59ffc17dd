"""The run that code belongs to, as the harness knows it."""

from __future__ import annotations


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
        """1 the first time, and one more each time that the process which ran it has died."""
        return _current()[1][0]

    @property
    def deadline(self) -> float | None:
        """The Unix time at which the service gives up on the run; None if it never does."""
        _, (_, limit_ms, began_at) = _current()
        return began_at + limit_ms / 1000 if limit_ms else None

    def __repr__(self) -> str:
        try:
            return "<millrace.run %s, attempt %d>" % (self.id, self.attempt)
        except RuntimeError:
            return "<millrace.run outside a run>"


def _current() -> tuple[str, tuple[int, int, float]]:
    try:
        from millrace_worker.current import current
    except ImportError:
        raise RuntimeError(
            "millrace.run is known only inside a run: a Millrace service does not run this code"
        ) from None
    return current()
