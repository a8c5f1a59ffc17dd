"""Calls the apps of a Millrace service, on the standard library alone. Python 3.9 and newer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import math
import random
import socket
import time
import uuid
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Callable, NamedTuple, Protocol, TypeVar, Union, cast
from urllib.parse import quote, urlencode, urlsplit

_LONG_WAIT_SECONDS = 50  # Shorter than most proxies keep a silent connection.
_GRACE_SECONDS = 30.0  # Beyond the time that was asked for: then the connection is as good as broken.
_RETRIES = 8  # Asking again does no harm, so it is done without being told to.
_MAX_BACKOFF_SECONDS = 10.0
_MAX_RETRY_AFTER_SECONDS = 60
_BROKEN = (OSError, http.client.HTTPException)

_T = TypeVar("_T")


class _Response(http.client.HTTPResponse):
    """With the socket that it is read from."""

    sock: socket.socket


class _Headers(Protocol):
    def items(self) -> Iterable[tuple[str, str]]: ...


class _Message(NamedTuple):
    """One message of an event stream."""

    id: str | None
    event: str | None
    data: str


class MillraceError(Exception):
    """Everything this module raises. Branch on the class or on `code`."""

    def __init__(
        self,
        code: str,
        message: str,
        status: int | None = None,
        request_id: str | None = None,
        details: Sequence[Any] = (),
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.status, self.request_id = code, status, request_id
        self.details, self.retry_after_seconds = details, retry_after_seconds


# fmt: off
class Unauthorized(MillraceError): """The token is missing, void, or has no right to do that."""
class NotFound(MillraceError): """There is no such app, function or run, or what it gave is not kept."""
class InvalidArguments(MillraceError): """The arguments do not fit the function; `details` names each one."""
class AppFailed(MillraceError): """The function raised, died, or gave what cannot be sent."""
class NotReady(MillraceError): """The app's own code failed when it was loaded."""
class Busy(MillraceError): """The service cannot take the call now; see `retry_after_seconds`."""
class TimedOut(MillraceError): """The run passed its `response_grace_period`."""
class Cancelled(MillraceError): """The run was cancelled."""
class ConnectionLost(MillraceError): """It broke: `connection_lost`; a stream's rest is gone: `stream_lost`."""
class InvalidWebhook(MillraceError): """Not sent by a holder of the secret, or an old request sent again."""
# fmt: on


class StillRunning(MillraceError):
    """The wait is over, the run is not: it goes on, and `run` is the way back to it."""

    def __init__(self, run: Run) -> None:
        super().__init__("still_running", f"The run {run.id} is not over yet.", request_id=run.id)
        self.run = run


class RunResult(NamedTuple):
    """What a function returned; of one that streams the list of texts that it yielded."""

    run_id: str
    result: Any
    run_time_ms: float | None  # None where the answer does not say.
    status: int  # 200, or what the function set by `status_code`: that is no error here.


_CODES = {
    Unauthorized: "unauthorized forbidden",
    NotFound: "not_found app_not_found function_not_found run_not_found payload_not_kept",
    InvalidArguments: "invalid_arguments",
    AppFailed: "app_error result_not_json result_too_large app_crashed out_of_memory",
    NotReady: "app_not_ready",
    Busy: "too_many_requests queue_full queue_timeout draining interrupted storage_unavailable",
    TimedOut: "timed_out",
    Cancelled: "cancelled",
}
_KINDS: dict[str, type[MillraceError]] = {code: kind for kind, codes in _CODES.items() for code in codes.split()}


class Millrace:
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
        self._url = urlsplit(url)
        self._base = f"{self._url.path.rstrip('/')}/v4/{quote(project, safe='')}"
        self._token, self._head_seconds, self._backoff_seconds = token, head_seconds, backoff_seconds

    def run(
        self, app: str, args: Mapping[str, Any] | None = None, *, timeout: float = math.inf, **options: Any
    ) -> RunResult:
        """Calls a function and waits for what it returns; past `timeout` seconds raises `StillRunning`."""
        deadline = time.monotonic() + timeout
        wait = math.ceil(min(max(timeout, 0), _LONG_WAIT_SECONDS))
        prefer = None if self._token is None else f"wait={wait}"
        limit = self._head_seconds if prefer is None else wait + _GRACE_SECONDS
        answer = self._call(app, args, {"Prefer": prefer}, limit, **options)
        if isinstance(answer, _Response):
            answer.close()
            raise MillraceError("is_stream", "The function streams: call it with stream().")
        return answer.wait(deadline - time.monotonic()) if isinstance(answer, Run) else answer

    def run_async(self, app: str, args: Mapping[str, Any] | None = None, **options: Any) -> Run:
        """Has a function run in the background: when this returns, the service has it on disk."""
        return cast(Run, self._call(app, args, {}, _GRACE_SECONDS, query={"async": "true"}, **options))

    def stream(
        self,
        app: str,
        args: Mapping[str, Any] | None = None,
        *,
        reattach_tries: int = 10,
        idle_seconds: float = 45.0,
        **options: Any,
    ) -> Stream:
        """What a function yields, as it comes. Nothing is sent before the stream is read."""
        headers = {"Accept": "text/event-stream", "X-Disconnect": self._token and "continue"}

        def begin() -> _Answer:
            return self._call(app, args, headers, self._head_seconds, **options)

        return Stream(self, app, begin, reattach_tries, idle_seconds, is_owner=True)

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
        retries: int = 0,
        query: Mapping[str, str] | None = None,
    ) -> _Answer:
        """A stream's response, a RunResult, or the Run that goes on; sent again so often, executed once."""
        query = {**(query or {}), **({"webhookEndpoint": webhook} if webhook else {})}
        path = f"{quote(app, safe='')}/{quote(function, safe='')}{'?' if query else ''}{urlencode(query)}"
        body = json.dumps({} if args is None else args).encode()
        retries = retries if self._token or idempotency_key else 0
        key = idempotency_key or (uuid.uuid4().hex if retries else None)

        def send() -> _Answer:
            nonlocal key
            sent = {**headers, "X-Webhook-Secret": webhook_secret, "Idempotency-Key": key}
            try:
                return self._answer(app, self._send("POST", path, sent, body, limit))
            except MillraceError as error:
                run_id = error.request_id or ""
                if error.code == "run_unfinished":  # An earlier try reached the service.
                    return Run(self, app, run_id)
                if not isinstance(error, Cancelled) or idempotency_key or not key:
                    raise
                # A run that waited when its connection broke was dropped, and holds the key.
                if Run(self, app, run_id).record()["startedAt"] is not None:
                    raise
                key = uuid.uuid4().hex
                raise _lost("The connection broke while the call waited.", run_id) from error

        return self._retrying(retries, send)

    def _answer(self, app: str, response: _Response, *, is_stored: bool = False) -> _Answer:
        if _is_events(response) and not is_stored:
            return response
        if _is_events(response) or response.status in (204, 205, 304):
            with response:
                result = [data for _, _, data in _messages(response)] if _is_events(response) else None
            return RunResult(response.getheader("x-request-id") or "", result, None, response.status)
        body = _json(response)
        if "run_id" not in body:
            raise _foreign(response, json.dumps(body))
        if "result" not in body:
            return Run(self, app, body["run_id"])
        return RunResult(body["run_id"], body["result"], body["run_time_ms"], response.status)

    def _send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str | None],
        body: bytes | None = None,
        timeout: float = _GRACE_SECONDS,
    ) -> _Response:
        """The answer when its head is there; to close it is to close its connection."""
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._url.hostname or "", self._url.port, timeout=min(timeout, _GRACE_SECONDS))
        connection.response_class = _Response
        sent = {name: value for name, value in headers.items() if value is not None}
        sent.update({"Connection": "close", "Content-Type": "application/json"})
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token}"
        try:
            connection.connect()
            connection.sock.settimeout(timeout)
            connection.request(method, f"{self._base}/{path}", body, sent)
            sock, response = connection.sock, cast(_Response, connection.getresponse())
            sock.close()  # The response holds it open until it is closed itself.
            response.sock = sock
            # http.client takes a head that breaks off for a whole one.
            if response.version == 11 and response.length is None and not response.chunked:
                response.close()
                raise http.client.IncompleteRead(b"")
            return response
        except _BROKEN as error:
            connection.close()
            raise _lost(f"The connection broke: {error!r}") from error

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
                if tries > retries or not _is_passing(error):
                    raise
                self._pause(tries, error)


class Run:
    """A run of an app, under way or over."""

    def __init__(self, client: Millrace, app: str, run_id: str) -> None:
        self.id, self.app, self._client = run_id, app, client
        self._path = f"{quote(app, safe='')}/runs/{quote(run_id, safe='')}"

    def wait(self, timeout: float = math.inf) -> RunResult:
        """What the function returned, when it has; raises what it ended with, or `StillRunning`."""
        deadline = time.monotonic() + timeout
        while True:
            asked = time.monotonic()
            result = self._ask(math.ceil(min(max(deadline - asked, 0), _LONG_WAIT_SECONDS)))
            if result:
                return result
            if time.monotonic() >= deadline:
                raise StillRunning(self)
            if time.monotonic() - asked < 1:  # A proxy keeps `Prefer` from the service.
                self._client._pause(1)

    def result(self) -> RunResult | None:
        """The same without waiting; None while the run is not over."""
        return self._ask(0)

    def record(self) -> dict[str, Any]:
        """How it stands, as a dict."""
        return self._client._retrying(_RETRIES, lambda: _json(self._client._send("GET", self._path, {})))

    def cancel(self) -> bool:
        """Stops it; False if it was over already."""
        try:
            _json(self._client._send("POST", f"{self._path}/cancel", {}, timeout=5.0))
            return True
        except MillraceError as error:
            if error.code == "run_finished":
                return False
            raise

    def stream(self, *, reattach_tries: int = 10, idle_seconds: float = 45.0) -> Stream:
        """All it yielded and will yield, from the beginning. To leave this stream does not cancel the run."""
        return Stream(self._client, self.app, lambda: self, reattach_tries, idle_seconds, is_owner=False)

    def _ask(self, wait: int) -> RunResult | None:
        headers = {"Prefer": f"wait={wait}" if wait else None}

        def ask() -> _Answer:
            response = self._client._send("GET", f"{self._path}/result", headers, None, wait + _GRACE_SECONDS)
            return self._client._answer(self.app, response, is_stored=True)

        answer = self._client._retrying(_RETRIES, ask)
        return answer if isinstance(answer, RunResult) else None


class Stream:
    """What a function yields, as texts, in order, each once. A connection that breaks is taken up again where it
    broke. To close it, or to leave a loop over it, cancels the run."""

    def __init__(
        self,
        client: Millrace,
        app: str,
        begin: Callable[[], _Answer],
        tries: int,
        idle_seconds: float,
        is_owner: bool,
    ) -> None:
        self.run: Run | None = None  # Known from the first text on.
        self._client, self._app, self._begin, self._tries = client, app, begin, tries
        self._idle_seconds, self._is_owner, self._is_over = idle_seconds, is_owner, False
        # `…/events` numbers what was yielded, and a live stream does not; one yield may be several messages. So a
        # place is the number of the last yield that was had whole, and the messages had since.
        self._event, self._had = 0, 0
        self._messages = self._read()

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        return next(self._messages)[1]

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancels the run, unless it is over."""
        self._messages.close()

    def json(self) -> Generator[Any, None, None]:
        """The same, each text read as JSON."""
        return (json.loads(text) for text in self)

    def messages(self) -> Generator[_Said, None, None]:
        """The same as pairs: the name that the app gave the event, or None, and the text."""
        return self._messages

    def _read(self) -> Generator[_Said, None, None]:
        try:
            answer = self._begin()
            if isinstance(answer, RunResult):
                self._is_over = True
                yield None, json.dumps(answer.result)
                return
            run_id = answer.id if isinstance(answer, Run) else answer.getheader("x-request-id")
            self.run = run = Run(self._client, self._app, run_id) if run_id else None
            is_whole = not isinstance(answer, Run) and (yield from self._live(answer, run))
            if run and not is_whole:
                yield from self._attached(run)
            self._is_over = True
        finally:
            if not self._is_over and self._is_owner and self.run and self._client._token:
                self._is_over = True
                try:
                    self.run.cancel()
                except MillraceError:
                    pass

    def _live(self, response: _Response, run: Run | None) -> Generator[_Said, None, bool]:
        """The answer to the call itself; whether it is known to be whole."""
        last: tuple[_Said, MillraceError] | None = None
        broken: ConnectionLost | None = None
        with response:
            try:
                for _, event, data in _messages(response, self._idle_seconds):
                    if last:
                        self._had += 1
                        yield last[0]
                        last = None
                    # An app may pass such a message on: the service's is the one after which nothing comes.
                    error = _error(_parsed(data)) if event == "error" else None
                    if error and run and error.request_id == run.id:
                        last = ((event, data), error)
                        continue
                    self._had += 1
                    yield event, data
            except ConnectionLost as error:
                broken = error
        if last:
            self._is_over = True
            raise last[1]
        if run and self._client._token:
            return not broken and self._is_whole(run)
        if broken:
            raise broken
        return True

    def _is_whole(self, run: Run) -> bool:
        """A proxy may make a proper end of a broken connection: the run is asked what came after the last."""
        message = self._client._retrying(self._tries, lambda: self._next(run))
        return message is None or self._is_end(run, message)

    def _next(self, run: Run) -> _Message | None:
        with self._attach(run, self._had) as response:
            if response.status == 204:
                return None
            for message in _messages(response, self._idle_seconds):
                if not _is_truncation(message):
                    return message
        raise _lost("The event stream broke off.", run.id)

    def _attached(self, run: Run) -> Generator[_Said, None, None]:
        """The rest, from where it was had, however often the connection breaks."""
        failures = 0
        while True:
            position = (self._event, self._had)
            try:
                if (yield from self._events(run)):
                    return
                broken = _lost("The event stream broke off.", run.id)
            except MillraceError as error:
                if self._is_over or not _is_passing(error):
                    raise
                broken = error
            failures = failures + 1 if position == (self._event, self._had) else 1
            if failures > self._tries:
                raise broken
            self._client._pause(failures, broken)

    def _events(self, run: Run) -> Generator[_Said, None, bool]:
        """One connection to `…/events`; whether it came to the end of the run."""
        with self._attach(run, self._event) as response:
            to_skip = self._had
            for message in _messages(response, self._idle_seconds):
                event_id, event, data = message
                if self._is_end(run, message):
                    return True
                if _is_truncation(message):
                    break
                is_new = to_skip == 0
                to_skip -= not is_new
                if event_id is not None:
                    self._event, self._had = int(event_id), to_skip
                else:
                    self._had += is_new
                if is_new:
                    yield event, data
            else:
                if response.status == 200:
                    return False
        raise _lost("The rest of the stream is no longer stored.", run.id, "stream_lost")

    def _attach(self, run: Run, after: int) -> _Response:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after) if after else None}
        response = self._client._send("GET", f"{run._path}/events", headers, timeout=self._idle_seconds)
        if response.status in (200, 204):
            return response
        try:
            raise _foreign(response, json.dumps(_json(response)))
        except NotFound as error:
            raise _lost("The service has lost the run.", run.id, "stream_lost") from error

    def _is_end(self, run: Run, message: _Message) -> bool:
        """Whether this is the end that the service tells; raises what the run ended with."""
        end = _parsed(message.data) if message.event == "end" else None
        if end is None or end.get("id") != run.id:
            return False
        self._is_over = True
        error = end["error"]
        if end["status"] == "cancelled":
            raise Cancelled("cancelled", "The run was cancelled.", 499, run.id)
        if error:
            kind = _KINDS.get(error["code"], MillraceError)
            raise kind(error["code"], error["message"], end["statusCode"], run.id)
        return True


def verify_webhook(
    secret: str | Iterable[str],
    headers: _Headers,
    body: str | bytes | bytearray | memoryview,
    *,
    tolerance_seconds: float = 300,
    now: float | None = None,
) -> str:
    """The run's id, if one of the secrets (`whsec_…`, or the X-Webhook-Secret of your call; one or a list) has
    signed the body's bytes, and lately; else raises `InvalidWebhook`."""
    secrets = [secret] if isinstance(secret, str) else list(secret)
    if not secrets or "" in secrets:
        raise ValueError("Give at least one secret; none may be empty.")
    sent = {name.lower(): value for name, value in headers.items()}
    run_id = sent.get("webhook-id") or sent.get("x-request-id") or ""
    data = body.encode() if isinstance(body, str) else bytes(body)
    fault = "no signature matches the secret."
    for form in ("", "x-cerebrium-"):
        timestamp = sent.get(f"{form}webhook-timestamp", "")
        given = sent.get(f"{form}webhook-signature", "").split(" ")[:32]
        if not timestamp.isdecimal():
            continue
        signed = f"{run_id}.{timestamp}.".encode() + data
        expected = [_signature(one, signed, bool(form)) for one in secrets]
        pairs = [(entry.encode(), own) for entry in given for own in expected if own]
        # Each pair is compared, and each in full: how long it takes tells nothing.
        if not any([hmac.compare_digest(*pair) for pair in pairs]):  # noqa: C419 - without a list it would stop early
            continue
        if abs((time.time() if now is None else now) - int(timestamp)) <= tolerance_seconds:
            return run_id
        fault = "its timestamp is too far from the current time."
    raise InvalidWebhook("invalid_webhook", f"The webhook is not genuine: {fault}")


def _signature(secret: str, signed: bytes, is_hex: bool) -> bytes | None:
    if is_hex:
        return b"v1," + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest().encode()
    if not secret.startswith("whsec_"):
        return None
    key = base64.b64decode(secret[len("whsec_") :])
    return b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())


def _messages(response: _Response, idle_seconds: float = _GRACE_SECONDS) -> Generator[_Message, None, None]:
    """(id, event, data) of each message of one connection; returns only at its proper end."""
    rest = b""
    fields: dict[str, str] = {}
    while True:
        try:
            if not rest and response.fp:
                response.sock.settimeout(idle_seconds)
            piece = response.read1(65536)
        except _BROKEN as error:
            raise _lost(f"The connection broke: {error!r}", response.getheader("x-request-id")) from error
        if not piece:
            if response.length:
                raise _lost("The connection broke.", response.getheader("x-request-id"))
            return
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            name, _, value = line.decode("utf-8", "replace").rstrip("\r").partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "data" and "data" in fields:
                fields["data"] += "\n" + value
            elif name:
                fields[name] = value
            elif line.strip(b"\r") == b"":
                if "data" in fields:
                    yield _Message(fields.get("id"), fields.get("event") or None, fields["data"])
                fields = {}


def _json(response: _Response) -> dict[str, Any]:
    """The body, a JSON object; raises the error that it holds, or for one that is not JSON."""
    with response:
        try:
            text = response.read()
        except _BROKEN as error:
            raise _lost(f"The connection broke: {error!r}", response.getheader("x-request-id")) from error
    body = _parsed(text)
    if body is None:
        raise _foreign(response, text.decode("utf-8", "replace"))
    error = _error(body, response)
    if error:
        raise error
    return body


def _error(body: dict[str, Any] | None, response: _Response | None = None) -> MillraceError | None:
    """The error that a body holds; None if it is not one of the service's."""
    if body is None or not isinstance(body.get("error"), dict) or "code" not in body:
        return None
    kind = _KINDS.get(body["code"], MillraceError)
    status, details = response.status if response else None, tuple(body.get("details", ()))
    return kind(body["code"], body["message"], status, body["request_id"], details, _retry_after(response))


def _foreign(response: _Response, text: str) -> MillraceError:
    message = f"The response is not from Millrace: {response.status} {text[:200]}"
    request_id, later = response.getheader("x-request-id"), _retry_after(response)
    return MillraceError("unexpected_answer", message, response.status, request_id, (), later)


def _retry_after(response: _Response | None) -> int | None:
    text = (response.getheader("retry-after") if response else None) or ""
    return int(text) if text.isdecimal() else None


def _is_passing(error: MillraceError) -> bool:
    """Whether the same request may do better a little later."""
    if error.code == "unexpected_answer":
        return error.status in (429, 502, 503, 504)
    return isinstance(error, Busy) or error.code == "connection_lost"


def _is_events(response: _Response) -> bool:
    return (response.getheader("content-type") or "").startswith("text/event-stream")


def _is_truncation(message: _Message) -> bool:
    body = _parsed(message.data) if message.event == "truncated" and message.id is None else None
    return body is not None and "firstEvent" in body


def _lost(message: str, request_id: str | None = None, code: str = "connection_lost") -> ConnectionLost:
    return ConnectionLost(code, message, request_id=request_id)


def _parsed(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object that a text is; None for any other."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


#: What comes of a call, or of the question what came of it.
_Answer = Union[_Response, RunResult, Run]
#: A message as an app has sent it: its event's name, or None, and its text.
_Said = tuple[Union[str, None], str]
