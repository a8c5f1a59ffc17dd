"""What a run in the background may ask of the queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Union

Span = Union[str, float, timedelta]
"""A duration: seconds, a text such as `90s` or `1h30m`, or a timedelta."""


def queue_query(
    *,
    priority: str | float | None = None,
    delay: Span | datetime | None = None,
    ttl: Span | None = None,
    timeout: Span | None = None,
    max_attempts: int | None = None,
    concurrency_key: str | None = None,
    tags: Sequence[str] = (),
) -> list[tuple[str, str]]:
    """The same as the pairs of a query."""
    asked = {
        "priority": priority,
        "delay": delay,
        "ttl": ttl,
        "timeout": timeout,
        "max_attempts": max_attempts,
        "concurrency_key": concurrency_key,
    }
    pairs = [(name, _text_of(value)) for name, value in asked.items() if value is not None]
    return pairs + [("tag", tag) for tag in tags]


def _text_of(value: Span | datetime) -> str:
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.3f}"
    return value.astimezone(timezone.utc).isoformat() if isinstance(value, datetime) else str(value)
