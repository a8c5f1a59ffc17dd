"""The streams of a batched generator: each of its lists has a chunk for each call, whose readers differ in speed."""

from __future__ import annotations

import sys
from typing import Any, Callable, Generic, TypeVar

from . import frames
from .batch import Batch, Execution, Member, MemberStream, items_of
from .call import describe_exception, unsendable_frame
from .chunks import Chunks
from .encode import NotJson
from .logs import CURRENT_RUN, finish_lines
from .signs import END, SKIP

Key = TypeVar("Key")


class Streams(Generic[Key]):
    """The streams of an execution. The generator goes on while one of its callers has credit; for the others their
    chunks are kept, within limits.
    """

    def __init__(self, batch: Batch[Key], execution: Execution[Key]) -> None:
        self._batch = batch
        self._execution = execution
        self._outbox = batch.replica.outbox
        self._limit_bytes = batch.replica.order.max_chunk_bytes
        self._run_id = execution.run_id

    @property
    def is_full(self) -> bool:
        """The generator has to wait. To be asked under the lock."""
        open_calls = [member.stream for member in self._execution.members if member.is_open]
        return bool(open_calls) and not any(stream is None or stream.has_room for stream in open_calls)

    @property
    def is_wanted(self) -> bool:
        """A caller waits for more chunks."""
        return any(member.is_open for member in self._execution.members)

    @property
    def is_read(self) -> bool:
        """No call has chunks that wait."""
        return not any(member.is_wanted for member in self._execution.members)

    def tag(self) -> None:
        """What the generator prints next is of its first call that is still open."""
        execution = self._execution
        run_id = next((execution.run_of(each) for each in execution.members if each.is_open), self._run_id)
        if run_id != self._run_id:
            finish_lines(self._run_id)
            self._run_id = run_id
        CURRENT_RUN.set(run_id)

    def begin(self) -> None:
        """The first list is there: all calls become streams."""
        batch = self._batch
        if self._execution.has_streams:
            return
        self._execution.has_streams = True
        with batch.lock:
            members = [member for member in self._execution.members if member.is_wanted]
            for member in members:
                member.stream = MemberStream(Chunks(member.call_id, batch.encode, self._limit_bytes))
            # Under the lock, so that the end of a call comes after it.
            self._outbox.hold(b"".join(frames.pack(frames.STREAM, member.call_id) for member in members))

    def put(self, values: Any) -> int:
        """Hands out a list of chunks; returns how many bytes go out. If its length is wrong, all calls fail."""
        batch, members = self._batch, self._execution.members
        items = items_of(values)
        if items is None or len(items) != len(members):
            batch.fail(members, batch.misfit(values, len(members), "yielded"))
            return 0
        self.begin()
        chunks: list[tuple[Member, MemberStream, bytes]] = []
        ended: list[tuple[Member, bytes]] = []
        for member, value in zip(members, items):
            stream = member.stream
            if value is SKIP or stream is None or not member.is_open:
                continue
            if value is END:
                ended.append((member, self._end_frame(member)))
                continue
            try:
                if isinstance(value, BaseException):
                    raise value
                chunks.append((member, stream, stream.chunks.frame(value)))
            except NotJson as error:
                ended.append((member, unsendable_frame(member.call_id, error, batch.run_ms)))
            except BaseException as error:  # noqa: BLE001 - or of the code that converts a value of the user's
                ended.append((member, batch.raised_frame(member, error)))
        sent_bytes = self._send(chunks)
        batch.end(ended)
        return sent_bytes

    def _send(self, chunks: list[tuple[Member, MemberStream, bytes]]) -> int:
        sent_bytes = 0
        stalled: list[tuple[Member, bytes]] = []
        put_by = self._outbox.waiting.append
        with self._batch.lock:
            for member, stream, frame in chunks:
                if not member.is_wanted:
                    continue
                held = stream.held
                if not held and stream.has_room:
                    put_by(frame)
                    stream.sent_bytes += len(frame)
                    sent_bytes += len(frame)
                elif not held or len(held) + len(frame) <= self._limit_bytes:
                    held += frame
                else:
                    held.clear()
                    stalled.append((member, stalled_frame(member.call_id)))
        if stalled:
            self._batch.end(stalled)
        return sent_bytes

    def exhaust(self) -> None:
        """The generator has ended, and so do all calls."""
        self.begin()
        self._batch.end([(each, self._end_frame(each)) for each in self._execution.members if each.is_open])

    def _end_frame(self, member: Member) -> bytes:
        return frames.pack(frames.END, member.call_id, frames.MILLISECONDS.pack(self._batch.run_ms))


def close_quietly(end: Callable[[], Any] | None) -> None:
    """Closes a generator; its calls are over, so what it raises is only printed."""
    if end is None:
        return
    try:
        end()
    except BaseException as error:  # noqa: BLE001 - the user's code
        print_exception(error)


def print_exception(error: BaseException) -> None:
    try:
        sys.stderr.write(describe_exception(error)[1])
    except Exception:  # noqa: BLE001 - the app may have put anything in the stream's place
        pass


def stalled_frame(call_id: int) -> bytes:
    """FAILED, for a call whose reader lags too far behind."""
    return frames.pack(frames.FAILED, call_id, b'{"kind":"stalled"}')
