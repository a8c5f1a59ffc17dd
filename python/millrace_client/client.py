"""Calls the functions of apps."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, Union, cast
from urllib.parse import quote, urlencode

from .errors import Cancelled, MillraceError, lost
from .run import LONG_WAIT_SECONDS, Answer, Run, RunResult, Stream, answer_of
from .transport import GRACE_SECONDS, Body, Response, Transport, refusal_in

Span = Union[str, float, timedelta]
"""A duration: seconds, a text such as `90s` or `1h30m`, or a timedelta."""

_KEPT = "%/?:@!$&'()*+,;=~"  # What a path and its query may contain; anything else is quoted.


class Millrace(Transport):
    """The apps of one project. Any thread may use it: each request has a connection of its own."""

    def __init__(
        self,
        url: str,
        project: str,
        token: str | None = None,
        *,
        head_seconds: float = 900.0,
        backoff_seconds: float = 0.2,
    ) -> None:
        super().__init__(url, project, token, backoff_seconds)
        self._head_seconds = head_seconds

    def run(
        self, app: str, args: Mapping[str, Any] | None = None, *, timeout: float = math.inf, **options: Any
    ) -> RunResult:
        """Calls a function and waits for what it returns; after `timeout` seconds raises `StillRunning`."""
        deadline = time.monotonic() + timeout
        wait = math.ceil(min(max(timeout, 0), LONG_WAIT_SECONDS))
        prefer = None if self._token is None else f"wait={wait}"
        limit = self._head_seconds if prefer is None else wait + GRACE_SECONDS
        answer = self._call(app, args, {"Prefer": prefer}, limit, **options)
        if isinstance(answer, Response):
            answer.close()
            raise MillraceError("is_stream", "The function streams: call it with stream().")
        return answer.wait(deadline - time.monotonic()) if isinstance(answer, Run) else answer

    def run_async(
        self,
        app: str,
        args: Mapping[str, Any] | None = None,
        *,
        priority: str | float | None = None,
        delay: Span | datetime | None = None,
        ttl: Span | None = None,
        timeout: Span | None = None,
        max_attempts: int | None = None,
        concurrency_key: str | None = None,
        tags: Sequence[str] = (),
        **options: Any,
    ) -> Run:
        """Runs a function in the background: when this returns, the service has stored the run on disk."""
        asked = {
            "priority": priority,
            "delay": delay,
            "ttl": ttl,
            "timeout": timeout,
            "max_attempts": max_attempts,
            "concurrency_key": concurrency_key,
        }
        query = [("async", "true")]
        query += [(name, _asked(value)) for name, value in asked.items() if value is not None]
        query += [("tag", tag) for tag in tags]
        return cast(Run, self._call(app, args, {}, GRACE_SECONDS, query=query, **options))

    def stream(
        self,
        app: str,
        args: Mapping[str, Any] | None = None,
        *,
        reattach_tries: int = 10,
        idle_seconds: float = 45.0,
        **options: Any,
    ) -> Stream:
        """Calls a function and receives what it yields while it runs. Nothing is sent before the stream is read."""
        headers = {"Accept": "text/event-stream", "X-Disconnect": self._token and "continue"}

        def begin() -> Answer:
            return self._call(app, args, headers, self._head_seconds, **options)

        return Stream(self, app, begin, reattach_tries, idle_seconds, is_owner=True)

    def request(
        self,
        app: str,
        path: str,
        *,
        method: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
        timeout: float | None = None,
    ) -> Response:
        """Calls a path of an app that is a server, by GET, or POST with a body. The response, as soon as its head has
        arrived, is one of `http.client`: read it whole or in pieces, and close it. Raises what the service itself
        refuses."""
        target = f"{quote(app, safe='')}/{quote(path.lstrip('/'), safe=_KEPT)}"
        method = method or ("GET" if body is None else "POST")
        response = self._send(method, target, headers or {}, body, timeout or self._head_seconds)
        refusal = refusal_in(response)
        if refusal:
            response.close()
            raise refusal
        return response

    def find(self, app: str, run_id: str) -> Run:
        """A run by its id."""
        return Run(self, app, run_id)

    def _call(
        self,
        app: str,
        args: Mapping[str, Any] | None,
        headers: Mapping[str, str | None],
        limit: float,
        *,
        function: str = "run",
        webhook: str | None = None,
        webhook_secret: str | None = None,
        idempotency_key: str | None = None,
        fairness_key: str | None = None,
        retries: int = 0,
        query: Sequence[tuple[str, str]] = (),
    ) -> Answer:
        """What the call led to. It may be sent again up to `retries` times, and is executed once."""
        query = [*query, *([("webhookEndpoint", webhook)] if webhook else [])]
        path = f"{quote(app, safe='')}/{quote(function, safe='')}{'?' if query else ''}{urlencode(query)}"
        body = json.dumps({} if args is None else args).encode()
        headers = {**headers, "X-Webhook-Secret": webhook_secret, "X-Millrace-Fairness-Key": fairness_key}
        retries = retries if self._token or idempotency_key else 0
        key = idempotency_key or (uuid.uuid4().hex if retries else None)

        def send() -> Answer:
            nonlocal key
            sent = {**headers, "Idempotency-Key": key}
            try:
                return answer_of(self, app, self._send("POST", path, sent, body, limit))
            except MillraceError as error:
                run_id = error.request_id or ""
                if error.code == "run_unfinished":  # An earlier try reached the service.
                    return Run(self, app, run_id)
                if not isinstance(error, Cancelled) or idempotency_key or not key:
                    raise
                # A run that was still waiting when its connection broke was dropped, but still holds the key.
                if Run(self, app, run_id).record()["startedAt"] is not None:
                    raise
                key = uuid.uuid4().hex
                raise lost("The connection broke while the call waited.", run_id) from error

        return self._retrying(retries, send)


def _asked(value: Span | datetime) -> str:
    """What an async call asks of the queue, as its query says it."""
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.3f}"
    return value.astimezone(timezone.utc).isoformat() if isinstance(value, datetime) else str(value)
