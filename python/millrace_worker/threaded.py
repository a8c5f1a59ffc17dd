"""Runs several `def` calls at a time, in up to `replica_concurrency` threads."""

from __future__ import annotations

import ctypes
import queue
import threading
from typing import Any, Callable

from . import frames
from .call import Replica, RunCancelled, run_here
from .chunks import Credit
from .encode import make_encoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .batch import Batch

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)


class _Live:
    """A call, from its arrival, or an execution of a batch. A cancel may raise in its thread only while `open`, and
    only once.
    """

    __slots__ = ("thread", "open", "cancelled", "aimed", "credit", "batch")

    def __init__(self, thread: int = 0, batch: Batch[_Live] | None = None) -> None:
        self.thread = thread
        self.open = False
        self.cancelled = False
        self.aimed = False
        self.credit: Credit | None = None
        #: Of which this is a call.
        self.batch = batch

    def begin_stream(self, credit: Credit) -> None:
        self.credit = credit


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
        self._find_thread()
        # Before it is queued: a cancel may come at any time.
        self._live[call_id] = _Live()
        self._calls.put((call_id, payload))

    def submit_batch(self, first_id: int, payload: bytes) -> None:
        from .batch import Batch

        self._find_thread()
        batch = Batch(self._replica, first_id, payload, lambda _: _Live(threading.get_ident()))
        live = _Live(batch=batch)
        for call_id in batch.call_ids:
            self._live[call_id] = live
        self._calls.put((first_id, b""))

    def _find_thread(self) -> None:
        if len(self._threads) < self._size and not self._idle.acquire(blocking=False):
            self._grow()

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
        live = self._live.get(call_id)
        if live and live.batch:
            execution = live.batch.cancel(call_id)
            live = execution and execution.key
        if live is None:
            return
        with self._lock:
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
        elif live and live.batch:
            live.batch.grant(call_id, count_bytes)

    def _work(self) -> None:
        try:
            self._take_calls()
        except BaseException as error:  # noqa: BLE001 - a call must not wait for a thread that has died
            self._replica.give_up(error)

    def _take_calls(self) -> None:
        encode = make_encoder()
        act = self._enter, self._leave, _Live.begin_stream
        while True:
            item = self._calls.get()
            if item is None:
                return
            call_id, payload = item
            live = self._live[call_id]
            live.thread = threading.get_ident()
            if live.batch:
                self._run_batch(live.batch, encode)
            else:
                if self._replica.begin(call_id):
                    self._replica.send(run_here(self._replica, call_id, payload, encode, live, *act))
                del self._live[call_id]
            self._idle.release()
            self._on_end()

    def _run_batch(self, batch: Batch[_Live], encode: Callable[[Any], bytes]) -> None:
        from .together import run_together

        run_together(batch, encode, self._enter, self._leave)
        for call_id in batch.call_ids:
            del self._live[call_id]

    def _enter(self, live: _Live) -> None:
        with self._lock:
            if live.cancelled:
                raise RunCancelled
            live.open = True

    def _leave(self, live: _Live) -> None:
        """Takes back a raise that has not landed. One that lands during this is the only one."""
        with self._lock:
            live.open = False
            if live.aimed:
                _raise_in(live.thread, ctypes.py_object())


def threaded(replica: Replica) -> Callable[[], None]:
    """What runs the whole replica, when it has no `async def`."""
    threads = Threads(replica, replica.order.concurrency)
    replica.cancel, replica.grant = threads.cancel, threads.grant

    def run() -> None:
        reader = frames.FrameReader(replica.wire)
        take_stepped = replica.take_stepped
        while (received := reader.receive()) is not None:
            for call_id, kind, payload in received:
                if kind == frames.RESUME:
                    replica.resumed[call_id] = payload
                    continue
                if kind == frames.TRACE:
                    replica.traced[call_id] = payload
                    continue
                if take_stepped and take_stepped(call_id, kind, payload):
                    continue
                if kind == frames.BATCH:
                    threads.submit_batch(call_id, payload)
                else:
                    threads.submit(call_id, payload)
        threads.drain()

    return run
