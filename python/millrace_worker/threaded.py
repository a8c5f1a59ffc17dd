"""Several `def` calls at a time, a thread each, never more than `replica_concurrency`."""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Iterator
from time import perf_counter
from typing import Any, Callable

from . import frames
from .call import RunCancelled, is_iterator, prepare, raised_frame, result_frame, unsendable_frame
from .chunks import Chunks, Credit, send_all
from .encode import NotJson
from .logs import CURRENT_RUN, finish_lines
from .replica import Replica

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)


class _Live:
    """A call, from its arrival. A cancel may raise in its thread only while `open`, and only once."""

    __slots__ = ("thread", "open", "cancelled", "aimed", "credit")

    def __init__(self) -> None:
        self.thread = 0
        self.open = False
        self.cancelled = False
        self.aimed = False
        self.credit: Credit | None = None


class Threads:
    """A growing set of threads that run calls; a thread lives as long as the replica."""

    def __init__(self, replica: Replica, size: int, on_end: Callable[[], None] = lambda: None) -> None:
        self._replica = replica
        self._size = size
        self._on_end = on_end
        self._calls: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._live: dict[int, _Live] = {}

    def submit(self, call_id: int, payload: bytes) -> None:
        """Runs the call in an idle thread, in a new one, or when one becomes free."""
        if len(self._threads) < self._size and not self._idle.acquire(blocking=False):
            self._grow()
        # Known before it is taken up: a cancel may come at any time from now on.
        self._live[call_id] = _Live()
        self._calls.put((call_id, payload))

    def _grow(self) -> None:
        name = "millrace-call-%d" % len(self._threads)
        try:
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            thread.start()
        except Exception:  # The host has none left, or the app has replaced what threads are made of.
            if not self._threads:
                raise
            self._size = len(self._threads)  # The call waits for one of these.
        else:
            self._threads.append(thread)

    def drain(self) -> None:
        """Waits for every call submitted so far."""
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()

    def cancel(self, call_id: int) -> None:
        """On the control thread."""
        with self._lock:
            live = self._live.get(call_id)
            if live is None:
                return
            live.cancelled = True
            if live.open and not live.aimed:
                live.aimed = True
                _raise_in(live.thread, RunCancelled)
            credit = live.credit
        if credit:
            credit.cancel()

    def grant(self, call_id: int, count_bytes: int) -> None:
        live = self._live.get(call_id)
        if live and live.credit:
            live.credit.add(count_bytes)

    def _work(self) -> None:
        try:
            self._take_calls()
        except BaseException as error:  # noqa: BLE001 - a call must not wait for a thread that has died
            self._replica.give_up(error)

    def _take_calls(self) -> None:
        encode = self._replica.make_encoder()
        while True:
            item = self._calls.get()
            if item is None:
                return
            call_id, payload = item
            live = self._live[call_id]
            live.thread = threading.get_ident()
            if self._replica.begin(call_id):
                self._replica.send(self._call(call_id, payload, live, encode))
            del self._live[call_id]
            self._idle.release()
            self._on_end()

    def _call(self, call_id: int, payload: bytes, live: _Live, encode: Callable[[Any], bytes]) -> bytes:
        replica = self._replica
        entry, arguments, run_id, fault = prepare(replica.app.entries, payload)
        if entry is None:
            return frames.pack(frames.FAILED, call_id, fault)
        CURRENT_RUN.set(run_id)
        started = perf_counter()
        try:
            try:
                self._enter(live)
                value = entry.call(arguments)
            finally:
                self._leave(live)
            run_ms = _since(started)
            if is_iterator(value):
                return self._stream(call_id, value, live, encode, started)
        except RunCancelled:
            return frames.pack(frames.CANCELLED, call_id)
        except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is its outcome
            return raised_frame(call_id, error, _since(started))
        finally:
            CURRENT_RUN.set("")
            finish_lines(run_id)
        return result_frame(call_id, value, run_ms, encode, replica.order.max_result_bytes)

    def _stream(
        self, call_id: int, iterator: Iterator[Any], live: _Live, encode: Callable[[Any], bytes], started: float
    ) -> bytes:
        replica = self._replica
        outbox = replica.outbox
        credit = live.credit = Credit(outbox)
        chunks = Chunks(call_id, encode, replica.order.max_chunk_bytes)
        outbox.hold(frames.pack(frames.STREAM, call_id))
        try:
            try:
                is_whole = send_all(
                    iterator, chunks, outbox, credit, lambda: self._enter(live), lambda: self._leave(live)
                )
            finally:
                self._leave(live)
            if not is_whole:
                return frames.pack(frames.CANCELLED, call_id)
            return frames.pack(frames.END, call_id, frames.MILLISECONDS.pack(_since(started)))
        except NotJson as error:
            return unsendable_frame(call_id, error, _since(started))
        finally:
            close = getattr(iterator, "close", None)
            if close:
                close()

    def _enter(self, live: _Live) -> None:
        """From here until `_leave`, and nowhere else, a cancel may raise in this thread."""
        with self._lock:
            if live.cancelled:
                raise RunCancelled
            live.open = True

    def _leave(self, live: _Live) -> None:
        """Takes back a raise that was asked for and has not landed.

        One that lands while the window is being closed was the only one there will be.
        """
        with self._lock:
            live.open = False
            if live.aimed:
                _raise_in(live.thread, ctypes.py_object())


class Threaded:
    """The whole replica, when it has no `async def`."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._threads = Threads(replica, replica.order.concurrency)
        replica.cancel = self._threads.cancel
        replica.grant = self._threads.grant

    def run(self) -> None:
        reader = frames.FrameReader(self._replica.wire)
        while True:
            received = reader.receive()
            if received is None:
                self._threads.drain()
                return
            for call_id, _, payload in received:
                self._threads.submit(call_id, payload)


def _since(started: float) -> float:
    return (perf_counter() - started) * 1000
