"""The trace that a run belongs to: what a TRACE frame says of it, and OpenTelemetry's current context while the app's
code runs for it, if the app has imported OpenTelemetry.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

#: Of a `traceparent`; the rest of a TRACE is the `tracestate`.
_PARENT_CHARS = 55


def headers_of(traced: bytes) -> tuple[str, str | None]:
    """`traceparent` and `tracestate` of a TRACE frame."""
    text = traced.decode("ascii")
    return text[:_PARENT_CHARS], text[_PARENT_CHARS:] or None


def attach(traced: bytes) -> Callable[[], None]:
    """Makes the span of a run the current one, if OpenTelemetry is imported; returns what ends that."""
    modules = sys.modules
    context: Any = modules.get("opentelemetry.context")
    trace: Any = modules.get("opentelemetry.trace")
    if context is None or trace is None:
        return do_nothing
    try:
        parent, state = headers_of(traced)
        _, trace_id, span_id, flags = parent.split("-")
        span_context = trace.SpanContext(
            trace_id=int(trace_id, 16),
            span_id=int(span_id, 16),
            is_remote=True,
            trace_flags=trace.TraceFlags(int(flags, 16)),
            trace_state=trace.TraceState.from_header([state] if state else []),
        )
        token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(span_context)))
    except Exception:  # noqa: BLE001 - the app's own version of it may be another, or half imported
        return do_nothing

    def detach() -> None:
        try:
            context.detach(token)
        except Exception:  # noqa: BLE001 - the same
            pass

    return detach


def do_nothing() -> None:
    pass
