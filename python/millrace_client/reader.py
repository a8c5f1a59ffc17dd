"""Reads what a run yields, and resumes where it left off when a connection breaks."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Literal, Union

from .errors import Cancelled, ConnectionLost, MillraceError, NotFound, is_passing, kind_of, lost
from .events import Message, is_all_gone, is_note, is_truncation, messages_of
from .transport import Response, Transport, error_in, foreign_error, json_of, parsed, run_path

#: A message as the app sent it: the name of its event, or None, and its text.
Said = tuple[Union[str, None], str]

#: What is missing of an answer.
Rest = Literal["none", "more", "unknown"]


class Reader:
    """The messages of one run, in order, each once."""

    def __init__(self, client: Transport, app: str, run_id: str | None, tries: int, idle_seconds: float) -> None:
        self.is_over = False  # Whether the run is known to have ended.
        self._client, self._tries, self._idle_seconds = client, tries, idle_seconds
        # An answer without an id can still be read, but not resumed.
        self._run_id, self._path = run_id, run_path(app, run_id or "")
        # `…/events` numbers what was yielded, a live stream does not, and one yield may be several messages. So a
        # position is the number of the last yield that was read whole, and the messages read since.
        self._event, self._had = 0, 0

    def read(self, live: Response | None) -> Generator[Said, None, None]:
        """All of it: from the answer to the call itself, if there is one, and the rest from `…/events`."""
        rest = "more" if live is None else (yield from self._live(live))
        if self._run_id and rest == "more":
            yield from self._attached()
        elif self._run_id and rest == "unknown":
            yield from self._searched()
        self.is_over = True

    def _live(self, response: Response) -> Generator[Said, None, Rest]:
        """The answer to the call itself; returns what is missing of it."""
        last: tuple[Said, MillraceError] | None = None
        broken: ConnectionLost | None = None
        with response:
            try:
                for _, event, data in messages_of(response, self._idle_seconds):
                    if last:
                        self._had += 1
                        yield last[0]
                        last = None
                    # An app may yield such a message itself. The one of the service is the last of the stream.
                    error = error_in(parsed(data)) if event == "error" else None
                    if error and self._run_id and error.request_id == self._run_id:
                        last = ((event, data), error)
                        continue
                    self._had += 1
                    yield event, data
            except ConnectionLost as error:
                broken = error
        if last and last[1].code == "node_lost":
            # The run may have ended, or continue on another node: its record says which.
            broken = lost(str(last[1]), self._run_id)
        elif last:
            self.is_over = True
            raise last[1]
        if self._run_id and self._client._token:
            return "more" if broken else self._rest()
        if broken:
            raise broken
        return "none"

    def _rest(self) -> Rest:
        """Asks the run what came after the last message: a proxy may end a broken connection properly.
        Unknown if a yield was several messages: then there may be more messages than yields."""
        message = self._client._retrying(self._tries, self._next)
        if message is None:
            return "unknown"
        return "none" if self._is_end(message) else "more"

    def _next(self) -> Message | None:
        with self._attach(self._had) as response:
            if response.status == 204:
                return None
            for message in messages_of(response, self._idle_seconds):
                self._check(message, response)
                if not (is_all_gone(message) or is_note(message)):
                    return None if is_truncation(message) else message
        raise lost("The event stream broke off.", self._run_id)

    def _searched(self) -> Generator[Said, None, None]:
        """What is missing of an answer that ended properly, searched for from the beginning."""
        is_found = False
        try:
            for said in self._attached():
                is_found = True
                yield said
        except ConnectionLost as error:
            # If the beginning is no longer stored, nothing speaks against the end of the answer.
            if is_found or error.code != "stream_lost":
                raise

    def _attached(self) -> Generator[Said, None, None]:
        """The rest, from the position on, however often the connection breaks."""
        failures = 0
        while True:
            position = (self._event, self._had)
            try:
                if (yield from self._events()):
                    return
                broken = lost("The event stream broke off.", self._run_id)
            except MillraceError as error:
                if self.is_over or not is_passing(error):
                    raise
                broken = error
            failures = failures + 1 if position == (self._event, self._had) else 1
            if failures > self._tries:
                raise broken
            self._client._pause(failures, broken)

    def _events(self) -> Generator[Said, None, bool]:
        """One connection to `…/events`; returns whether it reached the end of the run."""
        with self._attach(self._event) as response:
            to_skip = self._had
            for message in messages_of(response, self._idle_seconds):
                if is_note(message):
                    continue
                event_id, event, data = message
                if self._is_end(message):
                    return True
                if is_truncation(message):
                    break
                self._check(message, response)
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
        raise lost("The rest of the stream is no longer stored.", self._run_id, "stream_lost")

    def _attach(self, after: int) -> Response:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after) if after else None}
        response = self._client._send("GET", f"{self._path}/events", headers, timeout=self._idle_seconds)
        if response.status in (200, 204):
            return response
        try:
            raise foreign_error(response, json.dumps(json_of(response)))
        except NotFound as error:
            raise lost("The service has lost the run.", self._run_id, "stream_lost") from error

    def _check(self, message: Message, response: Response) -> None:
        """Raises the error with which the service ends an answer of `…/events`, if this message tells one."""
        error = error_in(parsed(message.data)) if message.event == "error" else None
        if error and error.request_id and error.request_id == response.getheader("x-request-id"):
            raise lost(str(error), self._run_id) if error.code == "node_lost" else error

    def _is_end(self, message: Message) -> bool:
        """Whether this is the service's own message about the end; raises what the run ended with."""
        end = parsed(message.data) if message.event == "end" else None
        if end is None or end.get("id") != self._run_id:
            return False
        self.is_over = True
        error = end["error"]
        if end["status"] == "cancelled":
            raise Cancelled("cancelled", "The run was cancelled.", 499, self._run_id)
        if error:
            raise kind_of(error["code"])(error["code"], error["message"], end["statusCode"], self._run_id)
        return True
