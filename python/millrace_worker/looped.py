"""Apps with `async def`: one event loop on the main thread for the life of the replica. Their `def` functions run in
threads, where they neither block the loop nor find one running when they call `asyncio.run`.
"""

from __future__ import annotations

import asyncio
import collections
import socket
import sys
from collections.abc import AsyncIterator
from time import perf_counter
from typing import Any

from . import frames
from .bind import Entry
from .call import Replica, close, is_iterator, last_frame, prepare, raised_frame, since, unsendable_frame
from .checkpoints import NOTED, end_notes
from .chunks import INITIAL_CREDIT_BYTES, Chunks, Flow
from .encode import NotJson, make_encoder
from .logs import CURRENT_RUN, finish_lines
from .threaded import Threads
from .traces import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .looped_batch import LoopedBatch

#: How often a stream that never awaits gives the loop a turn, so that a cancel can reach it.
_TURN_SECONDS = 0.005


class _AsyncCredit:
    """Credit for a stream on the loop; touched only there."""

    def __init__(self) -> None:
        self.granted_bytes = INITIAL_CREDIT_BYTES
        self._granted = asyncio.Event()

    def add(self, count_bytes: int) -> None:
        self.granted_bytes += count_bytes
        self._granted.set()

    async def wait(self, sent_bytes: int) -> None:
        while sent_bytes >= self.granted_bytes:
            self._granted.clear()
            await self._granted.wait()


class Looped:
    """Begins calls in order of arrival, at most `replica_concurrency` at a time."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._encode = make_encoder()
        self._loop = asyncio.new_event_loop()
        self._reader = frames.FrameReader(replica.wire)
        self._pending: collections.deque[tuple[int, int, bytes]] = collections.deque()
        self._running = 0
        self._closing = False
        self._tasks: dict[int, asyncio.Task[bytes]] = {}
        self._batches: dict[int, LoopedBatch] = {}
        self._cancelled: set[int] = set()
        self._credits: dict[int, _AsyncCredit] = {}
        #: All streams on the loop are one flow: each may be slow, and all of them fast.
        self._flow = Flow()
        self._sent_bytes = 0
        self._turn_at = 0.0
        self._threads = Threads(replica, replica.order.concurrency, lambda: self._on_loop(self._call_ended))
        replica.cancel = lambda call_id: self._on_loop(self._cancel, call_id)
        replica.grant = lambda call_id, count_bytes: self._on_loop(self._grant, call_id, count_bytes)
        replica.set_up = self._set_up

    def run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.add_reader(self._replica.wire.fileno(), self._readable)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    def _set_up(self, setup: Entry) -> object:
        asyncio.set_event_loop(self._loop)
        if not setup.is_async:
            return setup.function()  # Outside the loop, as in the threads of calls: it may use `asyncio.run`.
        error = self._loop.run_until_complete(_failure_of(setup))
        if error:
            raise error
        return None

    def _on_loop(self, act: Any, *args: Any) -> None:
        self._loop.call_soon_threadsafe(act, *args)

    def _readable(self) -> None:
        try:
            received = self._reader.receive(socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if received is None:
            self._loop.remove_reader(self._replica.wire.fileno())
            self._closing = True
        else:
            take_stepped = self._replica.take_stepped
            for call_id, kind, payload in received:
                if kind == frames.RESUME:
                    self._replica.resumed[call_id] = payload
                elif kind == frames.TRACE:
                    self._replica.traced[call_id] = payload
                elif not (take_stepped and take_stepped(call_id, kind, payload)):
                    self._pending.append((call_id, kind, payload))
        self._begin_more()

    def _begin_more(self) -> None:
        while self._pending and self._running < self._replica.order.concurrency:
            call_id, kind, payload = self._pending.popleft()
            if kind == frames.BATCH:
                self._running += 1
                self._begin_batch(call_id, payload)
                continue
            if not self._replica.begin(call_id):
                continue
            self._running += 1
            entry = self._replica.app.entries.get(frames.split_call(payload)[0])
            if entry is None or entry.is_async:
                task = self._tasks[call_id] = self._loop.create_task(self._call(call_id, payload))
                task.add_done_callback(lambda task, call_id=call_id: self._task_ended(call_id, task))
            else:
                self._threads.submit(call_id, payload)
        if self._closing and self._running == 0:
            self._loop.stop()

    def _begin_batch(self, first_id: int, payload: bytes) -> None:
        entry = self._replica.app.entries.get(frames.function_of(payload))
        if entry is not None and not entry.is_async:
            self._threads.submit_batch(first_id, payload)
            return
        from .looped_batch import LoopedBatch

        batch = LoopedBatch(self._replica, first_id, payload, _as_async_iterator)
        for call_id in batch.call_ids:
            self._batches[call_id] = batch
        batch.start(self._encode, self._tell, lambda: self._batch_ended(batch))

    def _tell(self, sent_bytes: int) -> bool:
        """Counts the bytes of chunks; returns whether it is time to give the loop a turn."""
        self._sent_bytes += sent_bytes
        if self._sent_bytes < self._flow.look_at_bytes:
            return False
        now = self._replica.outbox.look(self._flow, self._sent_bytes, sys.maxsize)
        is_time = now - self._turn_at >= _TURN_SECONDS
        if is_time:
            self._turn_at = now
        return is_time

    def _batch_ended(self, batch: LoopedBatch) -> None:
        for call_id in batch.call_ids:
            del self._batches[call_id]
        self._call_ended()

    def _task_ended(self, call_id: int, task: asyncio.Task[bytes]) -> None:
        fault = None if task.cancelled() else task.exception()
        if fault:
            self._replica.give_up(fault)
        # A task that was cancelled before its first step has made no frame.
        if not task.cancelled():
            frame = task.result()
        elif call_id in self._cancelled:
            frame = frames.pack(frames.CANCELLED, call_id)
        else:  # By the app, which may cancel every task of its loop.
            frame = raised_frame(call_id, asyncio.CancelledError(), 0.0)
        self._replica.send(frame)
        del self._tasks[call_id]
        self._replica.resumed.pop(call_id, None)  # Of a task that never took its first step.
        self._replica.traced.pop(call_id, None)
        self._cancelled.discard(call_id)
        self._credits.pop(call_id, None)
        self._call_ended()

    def _call_ended(self) -> None:
        self._running -= 1
        self._begin_more()

    async def _call(self, call_id: int, payload: bytes) -> bytes:
        resumed = self._replica.resumed.pop(call_id, None)
        traced = self._replica.traced.pop(call_id, None)
        entry, arguments, run_id, fault = prepare(self._replica.app.entries, payload, call_id, resumed, traced)
        if entry is None:
            return frames.pack(frames.FAILED, call_id, fault)
        CURRENT_RUN.set(run_id)
        if traced:
            attach(traced)  # In the context of this task alone.
        started = perf_counter()
        try:
            value = entry.call(arguments)
            if not hasattr(value, "__anext__"):
                value = await value
            stream = _as_async_iterator(value)
            if stream is not None:
                return await self._stream(call_id, stream, started)
        except asyncio.CancelledError as error:
            if call_id in self._cancelled:
                raise
            return raised_frame(call_id, error, since(started))
        except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is its outcome
            return raised_frame(call_id, error, since(started))
        finally:
            run_id.is_over = True
            if NOTED:
                end_notes(call_id)
            finish_lines(run_id)
        run_ms = since(started)
        return last_frame(call_id, run_id, value, run_ms, self._encode, self._replica.order.max_result_bytes)

    async def _stream(self, call_id: int, stream: AsyncIterator[Any], started: float) -> bytes:
        credit = self._credits[call_id] = _AsyncCredit()
        outbox = self._replica.outbox
        chunks = Chunks(call_id, self._encode, self._replica.order.max_chunk_bytes)
        flow = self._flow
        put_by = outbox.waiting.append
        sent_bytes = 0
        outbox.hold(frames.pack(frames.STREAM, call_id))
        try:
            async for chunk in stream if hasattr(type(stream), "__aiter__") else _Each(stream):
                frame = chunks.frame(chunk)
                put_by(frame)
                size = len(frame)
                sent_bytes += size
                self._sent_bytes += size
                if self._sent_bytes >= flow.look_at_bytes:
                    now = outbox.look(flow, self._sent_bytes, sys.maxsize)
                    if now - self._turn_at >= _TURN_SECONDS:
                        self._turn_at = now
                        await asyncio.sleep(0)
                if sent_bytes >= credit.granted_bytes:
                    outbox.flush()  # A reader grants nothing for chunks that it has not received.
                    await credit.wait(sent_bytes)
            return frames.pack(frames.END, call_id, frames.MILLISECONDS.pack(since(started)))
        except NotJson as error:
            return unsendable_frame(call_id, error, since(started))
        finally:
            end = getattr(stream, "aclose", None)
            if end:
                await end()

    def _cancel(self, call_id: int) -> None:
        task = self._tasks.get(call_id)
        batch = self._batches.get(call_id)
        if batch:
            batch.cancel(call_id)
        elif task is None:
            self._threads.cancel(call_id)
        elif not task.done():
            self._cancelled.add(call_id)
            task.cancel()

    def _grant(self, call_id: int, count_bytes: int) -> None:
        granted = self._credits.get(call_id)
        batch = self._batches.get(call_id)
        if granted:
            granted.add(count_bytes)
        elif batch:
            batch.grant(call_id, count_bytes)
        else:
            self._threads.grant(call_id, count_bytes)


async def _failure_of(setup: Entry) -> BaseException | None:
    """What `setup` raised. A loop ends in its own way on SystemExit, and adds its frames to each traceback."""
    try:
        await setup.function()
    except BaseException as error:  # noqa: BLE001 - whatever it raises is told to the service
        return error
    return None


def _as_async_iterator(value: Any) -> AsyncIterator[Any] | None:
    if hasattr(value, "__anext__"):
        return value
    if not is_iterator(value):
        return None

    async def each() -> AsyncIterator[Any]:
        try:
            for chunk in value:
                yield chunk
        finally:
            close(value)

    return each()


class _Each:
    """For an asynchronous iterator without `__aiter__`."""

    def __init__(self, stream: AsyncIterator[Any]) -> None:
        self._stream = stream

    def __aiter__(self) -> _Each:
        return self

    def __anext__(self) -> Any:
        return self._stream.__anext__()
