"""Uploads lines as a batch while they come."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Generator, Iterable
from typing import Any, Callable, Generic, TypeVar
from urllib.parse import quote, urlencode

from .terms import queue_query
from .transport import Transport, json_of

_WHOLE_BYTES = 1024 * 1024  # Up to this, lines are sent as one body, which can be sent again.
# What is sent at once, or what came within so long: the service takes a silent upload for a broken one.
_PIECE_BYTES = 64 * 1024
_PIECE_SECONDS = 1.0
_RETRIES = 8  # With its key a batch is stored once, so sending it again does no harm.
_ANSWER_SECONDS = 120.0  # The service may have to store what it was sent before.

_Line = TypeVar("_Line")


def upload_lines(
    client: Transport,
    app: str,
    lines: Iterable[_Line],
    text_of: Callable[[_Line], str],
    *,
    function: str = "run",
    webhook: str | None = None,
    webhook_secret: str | None = None,
    idempotency_key: str | None = None,
    fairness_key: str | None = None,
    **asked: Any,
) -> dict[str, Any] | None:
    """Uploads the lines, and gives the batch's record; None if there are no lines. Holds no more than a megabyte of
    them. What was sent as one body, or can be read again from the beginning, survives a broken connection."""
    query = queue_query(**asked) + ([("webhookEndpoint", webhook)] if webhook else [])
    path = f"{quote(app, safe='')}/{quote(function, safe='')}/batches{'?' if query else ''}{urlencode(query)}"
    try:
        body = _LinesBody(lines, text_of)
    except _SourceFailed as failed:
        raise failed.error from None
    if body.is_empty:
        return None
    headers = {
        "Content-Type": "application/jsonl",
        "X-Webhook-Secret": webhook_secret,
        "X-Millrace-Fairness-Key": fairness_key,
        # Without a key the service ends a batch whose upload has broken off.
        "Idempotency-Key": idempotency_key or (uuid.uuid4().hex if body.is_repeatable else None),
    }

    def send() -> dict[str, Any]:
        try:
            return json_of(client._send("POST", path, headers, body.next(), _ANSWER_SECONDS))
        except _SourceFailed as failed:
            raise failed.error from None

    return client._retrying(_RETRIES if body.is_repeatable else 0, send)


class _SourceFailed(Exception):
    """What the source of the lines raised: by itself it could look like a broken connection."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class _LinesBody(Generic[_Line]):
    def __init__(self, lines: Iterable[_Line], text_of: Callable[[_Line], str]) -> None:
        self._lines, self._text_of = lines, text_of
        iterator = iter(lines)
        self._pieces: Generator[bytes, None, None] | None = self._read(iterator)
        self._head: list[bytes] = []
        size = 0
        for piece in self._pieces:
            self._head.append(piece)
            size += len(piece)
            if size >= _WHOLE_BYTES:
                break
        else:
            self._pieces = None
        # A list begins anew with each loop, a generator does not.
        self.is_repeatable = self._pieces is None or iterator is not lines

    @property
    def is_empty(self) -> bool:
        return not self._head

    def next(self) -> bytes | Iterable[bytes]:
        """The body of the next try."""
        if self._pieces is None:
            return b"".join(self._head)
        head, self._head = self._head, []
        if not head:
            self._pieces = self._read(iter(self._lines))
        return itertools.chain(head, self._pieces)

    def _read(self, lines: Iterable[_Line]) -> Generator[bytes, None, None]:
        piece = bytearray()
        since = time.monotonic()
        try:
            for line in lines:
                piece += self._text_of(line).encode() + b"\n"
                if len(piece) >= _PIECE_BYTES or time.monotonic() - since >= _PIECE_SECONDS:
                    yield bytes(piece)
                    piece.clear()
                    since = time.monotonic()
        except Exception as error:
            raise _SourceFailed(error) from error
        if piece:
            yield bytes(piece)
