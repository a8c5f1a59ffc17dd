"""The chunks of one stream as frames: text as it is, any other value as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

from . import frames
from .credit import Credit
from .encode import TooLarge, to_utf8
from .outbox import Outbox

#: So many are kept for each stream: its chunks are mostly of few sizes.
_KEPT_HEADS = 64


class TextHeads(dict[int, bytes]):
    """What comes before a text of so many bytes: to look it up is cheaper than to pack it. Raises TooLarge."""

    def __init__(self, call_id: int, limit_bytes: int) -> None:
        super().__init__()
        self._call_id = call_id
        self._limit_bytes = limit_bytes

    def __missing__(self, size: int) -> bytes:
        head = chunk_head(self._call_id, size, self._limit_bytes, False)
        if len(self) < _KEPT_HEADS:
            self[size] = head
        return head


def chunk_head(call_id: int, size: int, limit_bytes: int, is_json: bool) -> bytes:
    """The start of a CHUNK frame. Raises TooLarge."""
    if size > limit_bytes:
        raise TooLarge("a chunk is %d bytes, max_chunk is %d" % (size, limit_bytes))
    return frames.CHUNK_HEAD.pack(1 + size, call_id, frames.CHUNK, is_json)


class Chunks:
    """Makes the CHUNK frames of one stream."""

    __slots__ = ("heads", "_call_id", "_encode", "_limit_bytes")

    def __init__(self, call_id: int, encode: Callable[[Any], bytes], limit_bytes: int) -> None:
        self.heads = TextHeads(call_id, limit_bytes)
        self._call_id = call_id
        self._encode = encode
        self._limit_bytes = limit_bytes

    def frame(self, value: Any) -> bytes:
        """CHUNK, for any value. Raises NotJson."""
        if isinstance(value, str):
            body = to_utf8(value)
            return self.heads[len(body)] + body
        body = self._encode(value)
        return chunk_head(self._call_id, len(body), self._limit_bytes, True) + body


def send_all(
    iterator: Iterator[Any],
    chunks: Chunks,
    outbox: Outbox,
    credit: Credit,
    enter: Callable[[], None],
    leave: Callable[[], None],
) -> bool:
    """Sends what the iterator gives, to its end; False when the call was cancelled meanwhile. Raises NotJson.

    Between `enter` and `leave` a cancel may raise: in the user's code, and in the lines here that a text takes,
    which lose nothing but a chunk of a call that is over.
    """
    heads = chunks.heads
    put_by = outbox.waiting.append
    sent_bytes = 0
    enter()
    for chunk in iterator if hasattr(type(iterator), "__iter__") else _Each(iterator):
        if type(chunk) is str:
            try:
                body = chunk.encode()
            except UnicodeEncodeError:
                body = to_utf8(chunk)
            frame = heads[len(body)] + body
        else:
            leave()
            frame = chunks.frame(chunk)
            enter()
        put_by(frame)
        sent_bytes += len(frame)
        if sent_bytes >= credit.look_at_bytes:
            leave()
            if not credit.look(sent_bytes):
                return False
            enter()
    return True


class _Each:
    """For an iterator that can only give its next."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator

    def __iter__(self) -> _Each:
        return self

    def __next__(self) -> Any:
        return next(self._iterator)
