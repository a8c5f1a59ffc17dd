"""Runs the calls of a batch together, on the thread that asks for it."""

from __future__ import annotations

import sys
from threading import Condition
from typing import Any, Callable, TypeVar

from .batch import Batch, Execution
from .batch_streams import Streams, close_quietly
from .call import is_iterator
from .chunks import Flow
from .logs import CURRENT_RUN, finish_lines

Key = TypeVar("Key")


def run_together(
    batch: Batch[Key],
    encode: Callable[[Any], bytes],
    enter: Callable[[Key], None],
    leave: Callable[[Key], None],
) -> None:
    """Runs a batch on this thread. A cancel may raise RunCancelled only between `enter` and `leave`."""
    batch.begin(encode)
    while (execution := batch.next()) is not None:
        arguments = batch.lists(execution)
        key = execution.key
        value: Any = None
        error: BaseException | None = None
        is_stream = False
        CURRENT_RUN.set(execution.run_id)
        leave_trace = execution.enter_trace()
        try:
            try:
                enter(key)
                value = batch.entry.call(arguments)
            finally:
                leave(key)  # Within the outer `try`: a cancel that lands just before this is caught too.
            is_stream = is_iterator(value)
            if is_stream:
                stream_together(batch, execution, value, enter, leave)
        except BaseException as raised:  # noqa: BLE001 - whatever the user's code raises is its outcome
            error = raised
        leave_trace()
        finish_lines(execution.run_id)
        if error is not None:
            batch.raised(execution, error)
        elif not is_stream:
            batch.returned(execution, value)
        if execution.has_streams:
            await_readers(batch, execution)
        CURRENT_RUN.set("")


def stream_together(
    batch: Batch[Key],
    execution: Execution[Key],
    iterator: Any,
    enter: Callable[[Key], None],
    leave: Callable[[Key], None],
) -> None:
    """Sends what a generator yields. Raises what it raises."""
    streams = Streams(batch, execution)
    key = execution.key
    outbox = batch.replica.outbox
    flow = Flow()
    sent_bytes = 0
    changed = Condition(batch.lock)
    batch.on_change = changed.notify_all
    try:
        while streams.is_wanted:
            streams.tag()
            try:
                try:
                    enter(key)
                    values = next(iterator)
                finally:
                    leave(key)
            except StopIteration:
                streams.exhaust()
                break
            sent_bytes += streams.put(values)
            if sent_bytes >= flow.look_at_bytes:
                outbox.look(flow, sent_bytes, sys.maxsize)
            if streams.is_full:
                outbox.flush()  # A reader grants nothing for chunks that it has not received.
                with changed:
                    while streams.is_full:
                        changed.wait()
    finally:
        close_quietly(getattr(iterator, "close", None))


def await_readers(batch: Batch[Any], execution: Execution[Any]) -> None:
    """Waits until the readers of all calls have what is kept for them, or are gone."""
    streams = Streams(batch, execution)
    changed = Condition(batch.lock)
    batch.on_change = changed.notify_all
    batch.replica.outbox.flush()
    with changed:
        while not streams.is_read:
            changed.wait()
    batch.on_change = None
