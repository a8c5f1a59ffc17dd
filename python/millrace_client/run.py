"""A run, and the stream of what it yields: each leads to the other, so they share a module."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Generator
from typing import Any, Callable, NamedTuple, Union

from .errors import MillraceError
from .events import is_events, messages_of
from .reader import Reader, Said
from .transport import GRACE_SECONDS, Response, Transport, foreign_error, json_of, run_path

LONG_WAIT_SECONDS = 50  # Shorter than most proxies keep a silent connection.
_RETRIES = 8  # Asking again does no harm, so it needs no option.


class RunResult(NamedTuple):
    """What a function returned; for one that streams, the list of texts that it yielded."""

    run_id: str
    result: Any
    run_time_ms: float | None  # None if the answer does not say.
    status: int  # 200, or what the function set as `status_code`, which is no error here.


class StillRunning(MillraceError):
    """The wait is over, but the run goes on: `run` leads back to it."""

    def __init__(self, run: Run) -> None:
        super().__init__("still_running", f"The run {run.id} is not over yet.", request_id=run.id)
        self.run = run


class Run:
    """A run of an app, under way or over."""

    def __init__(self, client: Transport, app: str, run_id: str) -> None:
        self.id, self.app, self._client = run_id, app, client
        self._path = run_path(app, run_id)

    def wait(self, timeout: float = math.inf) -> RunResult:
        """Waits for what the function returns; raises what the run ended with, or `StillRunning`."""
        deadline = time.monotonic() + timeout
        while True:
            asked = time.monotonic()
            result = self._ask(math.ceil(min(max(deadline - asked, 0), LONG_WAIT_SECONDS)))
            if result:
                return result
            if time.monotonic() >= deadline:
                raise StillRunning(self)
            if time.monotonic() - asked < 1:  # A proxy keeps `Prefer` from the service.
                self._client._pause(1)

    def get(self, timeout: float = math.inf) -> Any:
        """Waits like `wait`, and gives the value alone."""
        return self.wait(timeout).result

    def result(self) -> RunResult | None:
        """The same as `wait` without waiting; None while the run is not over."""
        return self._ask(0)

    def record(self) -> dict[str, Any]:
        """The run's record, with its status and times."""
        return self._client._retrying(_RETRIES, lambda: json_of(self._client._send("GET", self._path, {})))

    def cancel(self) -> bool:
        """Stops it; False if it was over already."""
        try:
            json_of(self._client._send("POST", f"{self._path}/cancel", {}, timeout=5.0))
            return True
        except MillraceError as error:
            if error.code == "run_finished":
                return False
            raise

    def stream(self, *, reattach_tries: int = 10, idle_seconds: float = 45.0) -> Stream:
        """Everything it yielded and will yield, from the beginning. Leaving this stream does not cancel the run."""
        return Stream(self._client, self.app, lambda: self, reattach_tries, idle_seconds, is_owner=False)

    def _ask(self, wait: int) -> RunResult | None:
        headers = {"Prefer": f"wait={wait}" if wait else None}

        def ask() -> Answer:
            response = self._client._send("GET", f"{self._path}/result", headers, None, wait + GRACE_SECONDS)
            return answer_of(self._client, self.app, response, is_stored=True)

        answer = self._client._retrying(_RETRIES, ask)
        return answer if isinstance(answer, RunResult) else None


class Stream:
    """What a function yields, as texts, in order, each once. It resumes a dropped connection where it left off.
    Closing it, or leaving a loop over it, cancels the run."""

    def __init__(
        self,
        client: Transport,
        app: str,
        begin: Callable[[], Answer],
        tries: int,
        idle_seconds: float,
        is_owner: bool,
    ) -> None:
        self.run: Run | None = None  # Known from the first text on.
        self._client, self._app, self._begin, self._tries = client, app, begin, tries
        self._idle_seconds, self._is_owner = idle_seconds, is_owner
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

    def messages(self) -> Generator[Said, None, None]:
        """The same as pairs: the name that the app gave the event, or None, and the text."""
        return self._messages

    def _read(self) -> Generator[Said, None, None]:
        answer = self._begin()
        if isinstance(answer, RunResult):
            yield None, json.dumps(answer.result)
            return
        run_id = answer.id if isinstance(answer, Run) else answer.getheader("x-request-id")
        reader = Reader(self._client, self._app, run_id, self._tries, self._idle_seconds)
        self.run = Run(self._client, self._app, run_id) if run_id else None
        try:
            yield from reader.read(None if isinstance(answer, Run) else answer)
        finally:
            if not reader.is_over and self._is_owner and self.run and self._client._token:
                try:
                    self.run.cancel()
                except MillraceError:
                    pass


#: What a call has led to, or a question about its result: a stream that begins, a result, or a run that goes on.
Answer = Union[Response, RunResult, Run]


def answer_of(client: Transport, app: str, response: Response, *, is_stored: bool = False) -> Answer:
    """Reads an answer; raises the error that it holds. A stored stream is read to its end."""
    if is_events(response) and not is_stored:
        return response
    if is_events(response) or response.status in (204, 205, 304):
        with response:
            result = [data for _, _, data in messages_of(response)] if is_events(response) else None
        return RunResult(response.getheader("x-request-id") or "", result, None, response.status)
    body = json_of(response)
    if "run_id" not in body:
        raise foreign_error(response, json.dumps(body))
    if "result" not in body:
        return Run(client, app, body["run_id"])
    return RunResult(body["run_id"], body["result"], body["run_time_ms"], response.status)
