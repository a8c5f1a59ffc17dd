"""The chunks of one stream as frames: text as it is, any other value as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Condition
from typing import Any, Callable

from . import frames
from .encode import TooLarge, to_utf8
from .outbox import Flow, Outbox

#: Both sides start a stream with this much.
INITIAL_CREDIT_BYTES = 65536


class Credit(Flow):
    """The flow of a generator in a thread: it waits here, inside its `yield`, when it has sent what it was granted."""

    __slots__ = ("granted_bytes", "_outbox", "_is_cancelled", "_changed")

    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        #: All that was ever granted.
        self.granted_bytes = INITIAL_CREDIT_BYTES
        self._outbox = outbox
        self._is_cancelled = False
        self._changed = Condition()

    def add(self, count_bytes: int) -> None:
        with self._changed:
            self.granted_bytes += count_bytes
            self._changed.notify()

    def cancel(self) -> None:
        with self._changed:
            self._is_cancelled = True
            self.look_at_bytes = 0
            self._changed.notify()

    def look(self, sent_bytes: int) -> bool:
        """Waits until more was granted than was sent; False when the call was cancelled."""
        self._outbox.look(self, sent_bytes, self.granted_bytes)
        if sent_bytes >= self.granted_bytes:
            self._outbox.flush()  # A reader grants nothing for chunks that it has not got.
            with self._changed:
                while sent_bytes >= self.granted_bytes and not self._is_cancelled:
                    self._changed.wait()
        return not self._is_cancelled


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
