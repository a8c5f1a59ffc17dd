"""Batches of lines, each of which is a run of a function in the background."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, urlencode

from .batch_upload import upload_lines
from .errors import MillraceError, is_passing, kind_of
from .events import lines_of
from .terms import queue_query
from .transport import Transport, foreign_error, json_of

_RETRIES = 8  # Asking again does no harm, so it needs no option.
_IDLE_SECONDS = 45.0  # The service sends an empty line every 15 s to a reader that waits.


@dataclass(frozen=True)
class BatchResult:
    """How a line has ended: with what the function returned, or with an error."""

    id: str | int | None  # The line's own.
    index: int  # Its place in the input, from 0.
    run_id: str | None
    status: str  # `success`, `failure` or `cancelled`
    result: Any  # None if there is an error; for a function that streams, a list of what it yielded.
    error: MillraceError | None
    encoding: str | None = None  # `base64`: the result stands for bytes, which a server app has answered with.


class Batch:
    """A batch of an app, under way or over."""

    def __init__(self, client: Transport, app: str, batch_id: str) -> None:
        self.id, self.app, self._client = batch_id, app, client
        self._path = f"{quote(app, safe='')}/batches/{quote(batch_id, safe='')}"

    def record(self) -> dict[str, Any]:
        """How far it is: its status, counts and times."""
        return self._client._retrying(_RETRIES, lambda: json_of(self._client._send("GET", self._path, {})))

    def results(self, *, order: str = "input", wait: bool = True) -> Generator[BatchResult, None, None]:
        """The result of each line, once, however often the connection breaks: in the order of the lines, or with
        `finished` as they end. Leaving the loop does not cancel the batch."""
        after, failures, count = None, 0, 0
        while True:
            before = count
            asked = {"order": order, "wait": "true" if wait else "false", **({} if after is None else {"after": after})}
            try:
                for result in self._results(urlencode(asked)):
                    count += 1
                    after = result.index if order == "input" else count
                    yield result
                return
            except MillraceError as error:
                failures = 1 if count > before else failures + 1
                if failures > _RETRIES or not is_passing(error):
                    raise
                self._client._pause(failures, error)

    def cancel(self) -> bool:
        """Ends all lines that have not ended; False if the batch was over, or being cancelled."""
        try:
            json_of(self._client._send("POST", f"{self._path}/cancel", {}, timeout=5.0))
            return True
        except MillraceError as error:
            if error.code == "batch_finished":
                return False
            raise

    def retry(self) -> Batch:
        """Runs the lines that have failed again, as a new batch."""
        record = json_of(self._client._send("POST", f"{self._path}/retry", {}))
        return Batch(self._client, self.app, record["id"])

    def _results(self, query: str) -> Generator[BatchResult, None, None]:
        response = self._client._send("GET", f"{self._path}/results?{query}", {}, timeout=_IDLE_SECONDS)
        if response.status != 200:
            raise foreign_error(response, json.dumps(json_of(response)))
        with response:
            for line in lines_of(response, _IDLE_SECONDS):
                if line:
                    yield _result_of(json.loads(line))


class Batches:
    """Makes and finds batches."""

    def __init__(self, client: Transport) -> None:
        self._client = client

    def create(self, app: str, lines: Iterable[Mapping[str, Any]], **options: Any) -> Batch:
        """Uploads a batch as its lines come: when this returns, the service has all of them on disk. A line has
        `input`, may have an `id` of your own, and what it asks of the queue."""
        record = upload_lines(self._client, app, lines, _line_text, **options)
        if record is None:
            raise MillraceError("bad_request", "The batch has no lines.")
        return self.find(app, record["id"])

    def find(self, app: str, batch_id: str) -> Batch:
        """A batch by its id."""
        return Batch(self._client, app, batch_id)

    def list(self, app: str) -> Generator[dict[str, Any], None, None]:
        """The records of the app's batches, the newest first."""
        token = ""
        while True:
            path = f"{quote(app, safe='')}/batches?{urlencode({'pageSize': 100, 'nextToken': token})}"
            page = self._client._retrying(_RETRIES, lambda path=path: json_of(self._client._send("GET", path, {})))
            yield from page["items"]
            token = page["nextToken"]
            if not token:
                return


def map_over(
    client: Transport,
    app: str,
    inputs: Iterable[Mapping[str, Any]],
    *,
    ordered: bool = True,
    return_exceptions: bool = False,
    **options: Any,
) -> Generator[Any, None, None]:
    """Calls a function once for each input, as one batch, and yields what it returned. Leaving the loop cancels the
    calls that have not ended."""
    record = upload_lines(client, app, inputs, _input_text, **options)
    if record is None:
        return
    batch = Batch(client, app, record["id"])
    is_over = False
    try:
        for result in batch.results(order="input" if ordered else "finished"):
            if result.error and not return_exceptions:
                raise result.error
            yield result.error or result.result
        is_over = True
    finally:
        if not is_over:
            try:
                batch.cancel()
            except MillraceError:
                pass


def _input_text(arguments: Mapping[str, Any]) -> str:
    return json.dumps({"input": arguments})


def _line_text(line: Mapping[str, Any]) -> str:
    own = {name: line[name] for name in ("id", "input") if name in line}
    asked = queue_query(**{name: value for name, value in line.items() if name not in own})
    tags = [value for name, value in asked if name == "tag"]
    return json.dumps({**own, **dict(asked), **({"tag": tags} if tags else {})})


def _result_of(line: dict[str, Any]) -> BatchResult:
    fault, run_id = cast("dict[str, str] | None", line.get("error")), line["run_id"]
    error = kind_of(fault["code"])(fault["code"], fault["message"], None, run_id) if fault else None
    own = line.get("id"), line["index"], run_id, line["status"], line.get("result"), error
    return BatchResult(*own, line.get("encoding"))
