"""Sends one request to a project's apps, and reads what its response holds."""

from __future__ import annotations

import http.client
import io
import json
import random
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any, Callable, TypeVar, Union, cast
from urllib.parse import quote, urlsplit

from .errors import MillraceError, is_passing, kind_of, lost
from .traces import trace_headers

GRACE_SECONDS = 30.0  # Beyond the time that was asked for; after that the connection counts as broken.
BROKEN = (OSError, http.client.HTTPException)
_MAX_BACKOFF_SECONDS = 10.0
_MAX_RETRY_AFTER_SECONDS = 60

Body = Union[bytes, Iterable[bytes]]  # Pieces of unknown length are sent as they come.
_MAX_REFUSAL_BYTES = 64 * 1024  # More than any refusal of the service takes.

_T = TypeVar("_T")


class Response(http.client.HTTPResponse):
    """A response that keeps the socket it is read from."""

    sock: socket.socket


class Transport:
    """Requests to the apps of one project, each on a connection of its own."""

    def __init__(self, url: str, project: str, token: str | None, backoff_seconds: float) -> None:
        self._url = urlsplit(url)
        self._base = f"{self._url.path.rstrip('/')}/v4/{quote(project, safe='')}"
        self._token, self._backoff_seconds = token, backoff_seconds

    def _send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str | None],
        body: Body | None = None,
        timeout: float = GRACE_SECONDS,
    ) -> Response:
        """The response, as soon as its head has arrived; closing it closes its connection."""
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._url.hostname or "", self._url.port, timeout=min(timeout, GRACE_SECONDS))
        connection.response_class = Response
        sent = {name.title(): value for name, value in headers.items() if value is not None}
        if "Traceparent" not in sent:
            sent.update(trace_headers())
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        sent["Connection"] = "close"
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token}"
        try:
            connection.connect()
            connection.sock.settimeout(timeout)
            connection.request(method, f"{self._base}/{path}", body, sent)
            sock, response = connection.sock, cast(Response, connection.getresponse())
            sock.close()  # The response holds it open until it is closed itself.
            response.sock = sock
            # http.client takes a head that breaks off for a whole one.
            if response.version == 11 and response.length is None and not response.chunked:
                response.close()
                raise http.client.IncompleteRead(b"")
            return response
        except BROKEN as error:
            connection.close()
            raise lost(f"The connection broke: {error!r}") from error

    def _pause(self, tries: int, error: MillraceError | None = None) -> None:
        limit = min(self._backoff_seconds * 2 ** (tries - 1), _MAX_BACKOFF_SECONDS)
        asked = min((error and error.retry_after_seconds) or 0, _MAX_RETRY_AFTER_SECONDS)
        time.sleep(asked + random.random() * limit)

    def _retrying(self, retries: int, work: Callable[[], _T]) -> _T:
        tries = 0
        while True:
            tries += 1
            try:
                return work()
            except MillraceError as error:
                if tries > retries or not is_passing(error):
                    raise
                self._pause(tries, error)


def run_path(app: str, run_id: str) -> str:
    """Where a run is, below its project."""
    return f"{quote(app, safe='')}/runs/{quote(run_id, safe='')}"


def json_of(response: Response) -> dict[str, Any]:
    """The body, a JSON object; raises the error it holds, or one that says it is no JSON object."""
    with response:
        try:
            text = response.read()
        except BROKEN as error:
            raise lost(f"The connection broke: {error!r}", response.getheader("x-request-id")) from error
    body = parsed(text)
    if body is None:
        raise foreign_error(response, text.decode("utf-8", "replace"))
    error = error_in(body, response)
    if error:
        raise error
    return body


def parsed(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object in a text; None if it holds anything else."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def error_in(body: dict[str, Any] | None, response: Response | None = None) -> MillraceError | None:
    """The error that a body holds; None if it is not one of the service's."""
    if body is None or not isinstance(body.get("error"), dict) or "code" not in body:
        return None
    kind = kind_of(body["code"])
    status, details = response.status if response else None, tuple(body.get("details", ()))
    return kind(body["code"], body.get("message", ""), status, body.get("request_id"), details, _retry_after(response))


def refusal_in(response: Response) -> MillraceError | None:
    """The error with which the service itself refused a request to an app's server; None if the server answered."""
    is_json = (response.getheader("content-type") or "").startswith("application/json")
    length = response.length
    if response.status < 400 or not is_json or length is None or length > _MAX_REFUSAL_BYTES:
        return None
    try:
        text = response.read()
    except BROKEN as error:
        raise lost(f"The connection broke: {error!r}", response.getheader("x-request-id")) from error
    error = error_in(parsed(text), response)
    if error and error.request_id == response.getheader("x-request-id"):
        return error
    # It is the server's: it can be read once more.
    response.fp, response.length = io.BufferedReader(io.BytesIO(text)), len(text)
    return None


def foreign_error(response: Response, text: str) -> MillraceError:
    """The error for a response that the service did not send, such as a proxy's error page."""
    message = f"The response is not from Millrace: {response.status} {text[:200]}"
    request_id, later = response.getheader("x-request-id"), _retry_after(response)
    return MillraceError("unexpected_answer", message, response.status, request_id, (), later)


def _retry_after(response: Response | None) -> int | None:
    text = (response.getheader("retry-after") if response else None) or ""
    return int(text) if text.isdecimal() else None
