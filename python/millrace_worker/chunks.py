"""Sends frames: chunks may wait a moment for each other, other frames take them along at once.

A thread sends the waiting chunks, also beside an event loop: a coroutine that computes would delay the loop's timers,
and the thread was measured to be no slower.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from os import write
from threading import Condition
from time import monotonic, sleep
from typing import Any, Callable, NoReturn

from . import frames
from .encode import TooLarge, to_utf8

#: How long after a write the next chunk waits for others: without that 150,000 chunks/s are possible, so 1,500,000.
HOLD_SECONDS = 0.001
#: Waiting chunks are sent at this size: half of a stream's first credit, so that its reader need not wait for the rest.
FULL_BYTES = 32 * 1024
#: A flow that looked less than the first ago may go further than last time, since a look costs as much as a chunk; one
#: that looked longer than the second ago has to look at each chunk.
OFTEN_SECONDS = 0.00005
RARELY_SECONDS = 0.0002


class Flow:
    """The chunks of one thread. After `look_at_bytes` it is time to look at the clock, the credit and cancels; until
    then a chunk costs no lock. Set the number to 0 to make the next chunk look.
    """

    __slots__ = ("look_at_bytes", "told_bytes", "stride_bytes", "looked_at")

    def __init__(self) -> None:
        self.look_at_bytes = 0
        #: For the outbox: the bytes that it has counted, how far the flow may go, and the time of the last look.
        self.told_bytes = 0
        self.stride_bytes = 0
        self.looked_at = 0.0


class Outbox:
    """The only writer of the wire. Sends whole frames in their order, from any thread."""

    def __init__(self, wire: socket.socket) -> None:
        #: Streams append chunks without the lock, then look if their flow says so. It is always the same list, and
        #: frames are taken from its front under the lock, so no chunk is lost.
        self.waiting: list[bytes] = []
        self._is_fork = False
        self._wire = wire
        self._lock = threading.Lock()
        #: An upper bound of the waiting bytes that streams have reported.
        self._waiting_bytes = 0
        #: A millisecond after the last write, and after the last held frame.
        self._due_at = 0.0
        self._held_until = 0.0
        #: The flusher is awake and will send what waits.
        self._is_watched = False
        #: Flows that do not look at each chunk; none unless the flusher is awake.
        self._flows: set[Flow] = set()
        self._has_flusher = False
        self._wake = threading.Semaphore(0)

    def send(self, frame: bytes) -> None:
        """Sends at once, after all that waits."""
        if self._is_fork:
            _leave()
        with self._lock:
            if self.waiting and len(frame) < FULL_BYTES:
                self.waiting.append(frame)
                self._send_waiting()
                return
            if self.waiting:
                self._send_waiting()
            self._write(frame)

    def hold(self, frame: bytes) -> None:
        """Holds a frame for the next one to take along, a millisecond at most."""
        if self._is_fork:
            _leave()
        with self._lock:
            self.waiting.append(frame)
            self._held_until = monotonic() + HOLD_SECONDS
            if not self._is_watched:
                self._wake_flusher()

    def look(self, flow: Flow, sent_bytes: int, end_bytes: int) -> float:
        """Sends what waits, at once if the wire was quiet, otherwise within a millisecond; returns the time.

        Sets in `flow` where to look again: at the next chunk, or later (`end_bytes` at most) while chunks come fast.
        """
        if self._is_fork:
            _leave()
        with self._lock:
            now = monotonic()
            self._waiting_bytes += sent_bytes - flow.told_bytes
            flow.told_bytes = sent_bytes
            stride_bytes = flow.stride_bytes
            since = now - flow.looked_at
            if since < OFTEN_SECONDS:
                stride_bytes = flow.stride_bytes = min(2 * stride_bytes + 64, FULL_BYTES)
            elif since > RARELY_SECONDS:
                stride_bytes = flow.stride_bytes = 0
            if now >= self._due_at or self._waiting_bytes >= FULL_BYTES:
                self._send_waiting()
                now = monotonic()  # The time of a write is not the generator's.
            elif not self._is_watched:
                self._wake_flusher()
            flow.looked_at = now
            if stride_bytes and self._is_watched:
                self._flows.add(flow)
                flow.look_at_bytes = min(sent_bytes + stride_bytes, end_bytes)
            else:
                flow.look_at_bytes = 0
        return now

    def flush(self) -> None:
        with self._lock:
            self._send_waiting()

    @property
    def is_fork(self) -> bool:
        """Whether this is a child that the user's function forked."""
        return self._is_fork

    def left_by_fork(self) -> None:
        """In a child that the user's function forked: sending ends the process."""
        self._is_fork = True
        self._recall()

    def end_fork(self) -> None:
        """Ends such a child."""
        if self._is_fork:
            _leave()

    def _send_waiting(self) -> None:
        frames = self.waiting[:]
        del self.waiting[: len(frames)]
        self._waiting_bytes = 0
        if frames:
            self._write(b"".join(frames))

    def _write(self, data: bytes) -> None:
        # Not by `send`: behind walls the kernel's filter checks the arguments of `sendto`, but not of `write`. Not by
        # `os.write`: apps patch that, as gevent does.
        try:
            sent = write(self._wire.fileno(), data)
            while sent < len(data):
                sent += write(self._wire.fileno(), memoryview(data)[sent:])
        except OSError:
            os._exit(1)  # The service, or the app itself, has closed it.
        self._due_at = monotonic() + HOLD_SECONDS

    def _wake_flusher(self) -> None:
        if not self._has_flusher:
            try:
                threading.Thread(target=self._flush_forever, name="millrace-flusher", daemon=True).start()
            except Exception:  # noqa: BLE001 - the host has no thread left, or the app has replaced what they are made of
                self._send_waiting()
                return
            self._has_flusher = True
        self._wake.release()
        self._is_watched = True

    def _flush_forever(self) -> None:
        while True:
            self._wake.acquire()
            # First: while a function computes, this thread may get its turn 5 ms late.
            left = self._flush_late()
            while left > 0:
                sleep(left)
                left = self._flush_late()

    def _flush_late(self) -> float:
        """Sends what has waited long enough; returns the seconds until the next look, 0 for none."""
        with self._lock:
            if self.waiting:
                left = max(self._due_at, self._held_until) - monotonic()
                if left > 0:
                    return left
                self._send_waiting()
            self._recall()
            # After `_recall`: a stream appends its chunk and then compares, so one of the two sees the other.
            self._is_watched = bool(self.waiting)
            return HOLD_SECONDS if self._is_watched else 0.0

    def _recall(self) -> None:
        for flow in self._flows:
            flow.look_at_bytes = 0
        self._flows.clear()


def _leave() -> NoReturn:
    os._exit(0)  # The user's function forked and returned in the child, which must not send.


#: Both sides start a stream with this much.
INITIAL_CREDIT_BYTES = 65536


class Credit(Flow):
    """The flow of a generator in a thread, which waits here, inside its `yield`, when its credit is used up."""

    __slots__ = ("granted_bytes", "outbox", "_is_cancelled", "_changed")

    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        #: In total.
        self.granted_bytes = INITIAL_CREDIT_BYTES
        self.outbox = outbox
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
        """Waits for credit; False if the call was cancelled."""
        self.outbox.look(self, sent_bytes, self.granted_bytes)
        if sent_bytes >= self.granted_bytes:
            self.outbox.flush()  # A reader grants nothing for chunks that it has not received.
            with self._changed:
                while sent_bytes >= self.granted_bytes and not self._is_cancelled:
                    self._changed.wait()
        return not self._is_cancelled


#: For each stream: its chunks mostly have few sizes.
_KEPT_HEADS = 64


class Chunks(dict[int, bytes]):
    """Makes the CHUNK frames of one stream. As a dict it caches heads of texts by size, which is cheaper than packing
    them. Raises TooLarge.
    """

    def __init__(self, call_id: int, encode: Callable[[Any], bytes], limit_bytes: int) -> None:
        super().__init__()
        self._call_id = call_id
        self._encode = encode
        self._limit_bytes = limit_bytes

    def __missing__(self, size: int) -> bytes:
        head = self._head(size, False)
        if len(self) < _KEPT_HEADS:
            self[size] = head
        return head

    def _head(self, size: int, is_json: bool) -> bytes:
        if size > self._limit_bytes:
            raise TooLarge("a chunk is %d bytes, max_chunk is %d" % (size, self._limit_bytes))
        return frames.CHUNK_HEAD.pack(1 + size, self._call_id, frames.CHUNK, is_json)

    def frame(self, value: Any) -> bytes:
        if isinstance(value, str):
            body = to_utf8(value)
            return self[len(body)] + body
        body = self._encode(value)
        return self._head(len(body), True) + body


def send_all(
    iterator: Iterator[Any], chunks: Chunks, credit: Credit, enter: Callable[[], None], leave: Callable[[], None]
) -> bool:
    """Sends all chunks of an iterator; False if the call was cancelled. Raises NotJson.

    Between `enter` and `leave` a cancel may raise: in the user's code, and in the lines here for texts, where it only
    loses a chunk of a cancelled call.
    """
    put_by = credit.outbox.waiting.append
    sent_bytes = 0
    enter()
    for chunk in iterator if hasattr(type(iterator), "__iter__") else _Each(iterator):
        if type(chunk) is str:
            try:
                body = chunk.encode()
            except UnicodeEncodeError:
                body = to_utf8(chunk)
            frame = chunks[len(body)] + body
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
    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator

    def __iter__(self) -> _Each:
        return self

    def __next__(self) -> Any:
        return next(self._iterator)
