"""Batches of `async def` functions: each execution is a task of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Callable

from .batch import Batch, Execution, Member
from .batch_streams import Streams, print_exception
from .call import Replica
from .logs import CURRENT_RUN, finish_lines

#: Makes an asynchronous iterator of one that a function has returned; None for any other value.
AsIterator = Callable[[Any], Any]


class LoopedBatch:
    """A batch whose function is `async def`. All of it happens on the loop."""

    def __init__(self, replica: Replica, first_id: int, payload: bytes, as_iterator: AsIterator) -> None:
        self._replica = replica
        self._batch: Batch[None] = Batch(replica, first_id, payload, _no_key)
        self._as_iterator = as_iterator
        self._task: asyncio.Task[None] | None = None
        self.call_ids = self._batch.call_ids
        self.grant = self._batch.grant

    def start(self, encode: Callable[[Any], bytes], tell: Callable[[int], bool], on_end: Callable[[], None]) -> None:
        """`tell` is told of the bytes of chunks, and answers whether the loop needs a turn."""
        self._tell = tell
        self._on_end = on_end
        self._batch.begin(encode)
        self._run_next()

    def cancel(self, call_id: int) -> None:
        if self._batch.cancel(call_id) and self._task:
            self._task.cancel()

    def _run_next(self) -> None:
        execution = self._batch.next()
        loop = asyncio.get_running_loop()
        if execution is None:
            self._task = None
            loop.call_soon(self._on_end)
            return
        self._task = loop.create_task(self._execute(execution))
        self._task.add_done_callback(lambda task: self._ended(execution, task))

    def _ended(self, execution: Execution[None], task: asyncio.Task[None]) -> None:
        try:
            self._take(execution, task)
            self._run_next()
        except BaseException as error:  # noqa: BLE001 - a loop only logs it, and its calls would hang
            self._replica.give_up(error)

    def _take(self, execution: Execution[None], task: asyncio.Task[None]) -> None:
        if task.cancelled():  # Before its first step; if not by a cancel, then by the app.
            self._batch.raised(execution, asyncio.CancelledError())
        else:
            fault = task.exception()
            if fault:
                raise fault

    async def _execute(self, execution: Execution[None]) -> None:
        batch = self._batch
        value: Any = None
        error: BaseException | None = None
        has_streamed = False
        CURRENT_RUN.set(execution.run_id)
        execution.enter_trace()  # In the context of this task alone.
        try:
            value = batch.entry.call(batch.lists(execution))
            if not hasattr(value, "__anext__"):
                value = await value
            stream = self._as_iterator(value)
            if stream is not None:
                has_streamed = True
                await self._stream(execution, stream)
        except BaseException as raised:  # noqa: BLE001 - whatever the user's code raises is its outcome
            error = raised
        finish_lines(execution.run_id)
        if error is not None:
            batch.raised(execution, error)
        elif not has_streamed:
            batch.returned(execution, value)
        if execution.has_streams:
            await self._await_readers(execution)

    async def _stream(self, execution: Execution[None], stream: Any) -> None:
        batch = self._batch
        streams = Streams(batch, execution)
        changed = asyncio.Event()
        batch.on_change = changed.set
        try:
            while streams.is_wanted:
                streams.tag()
                try:
                    values = await stream.__anext__()
                except StopAsyncIteration:
                    streams.exhaust()
                    break
                if self._tell(streams.put(values)):
                    await asyncio.sleep(0)
                if streams.is_full:
                    self._replica.outbox.flush()  # A reader grants nothing for chunks that it has not received.
                    while streams.is_full:
                        changed.clear()
                        await changed.wait()
        finally:
            try:
                if hasattr(stream, "aclose"):
                    await stream.aclose()
            except BaseException as error:  # noqa: BLE001 - the user's code; the calls are over
                print_exception(error)

    async def _await_readers(self, execution: Execution[None]) -> None:
        """Waits until the readers of all calls have what is kept for them, or are gone."""
        streams = Streams(self._batch, execution)
        changed = asyncio.Event()
        self._batch.on_change = changed.set
        self._replica.outbox.flush()
        while not streams.is_read:
            changed.clear()
            try:
                await changed.wait()
            except asyncio.CancelledError:  # The last caller has gone, or the app cancels every task of its loop.
                pass
        self._batch.on_change = None


def _no_key(_members: Sequence[Member]) -> None:
    """Its task is stopped instead."""
