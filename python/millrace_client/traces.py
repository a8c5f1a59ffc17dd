"""The trace that a request to another app continues."""

from __future__ import annotations

import sys
from typing import Any


def trace_headers() -> dict[str, str]:
    """`traceparent` and `tracestate` of the code that asks: of OpenTelemetry's current span if it is used, else of the
    run that the code belongs to. Empty if there is neither.
    """
    # What is not imported is not used: an import here would cost each request, and an app that has none of it.
    trace: Any = sys.modules.get("opentelemetry.trace")
    harness: Any = sys.modules.get("millrace_worker.current")
    try:
        span = trace.get_current_span().get_span_context() if trace else None
        if span and span.is_valid:
            parent = "00-%032x-%016x-%02x" % (span.trace_id, span.span_id, span.trace_flags)
            return _headers(parent, span.trace_state.to_header())
        traced = harness.current()[1][5] if harness else None
    except Exception:  # noqa: BLE001 - outside a run, or the app's version of OpenTelemetry is another
        return {}
    text = traced.decode("ascii") if traced else ""
    return _headers(text[:_PARENT_CHARS], text[_PARENT_CHARS:])


_PARENT_CHARS = 55


def _headers(parent: str, state: str) -> dict[str, str]:
    if not parent:
        return {}
    return {"Traceparent": parent, "Tracestate": state} if state else {"Traceparent": parent}
