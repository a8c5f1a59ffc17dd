"""One call at a time, on the main thread, which also reads the wire.

Handing each call from a reader thread to another would cost 40 µs a call (measured: 130 against 90 µs).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from time import perf_counter, sleep
from typing import Any

from . import frames
from .call import RunCancelled, is_iterator, prepare, raised_frame, result_frame, unsendable_frame
from .chunks import Chunks, Credit, send_all
from .encode import NotJson
from .logs import CURRENT_RUN, finish_lines
from .replica import Replica

_CANCEL_SIGNAL = signal.SIGRTMIN + 5
_REPEATS = 100
_REPEAT_SECONDS = 0.02


class Serial:
    """Runs calls in the order of arrival.

    `_current` is the id of the call whose user code may be on the stack, 0 outside of it. It is set and
    cleared by the main thread alone, and the signal's handler runs on that thread between two of its
    instructions: so a cancel meets the call it was meant for, or nothing.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._encode = replica.make_encoder()
        self._current = 0
        self._cancel_id = 0
        self._credit: Credit | None = None
        self._streaming = 0
        self._main = threading.main_thread().ident or 0
        replica.cancel = self._cancel
        replica.grant = self._grant
        signal.signal(_CANCEL_SIGNAL, self._on_cancel_signal)

    def run(self) -> None:
        replica = self._replica
        reader = frames.FrameReader(replica.wire)
        while True:
            received = reader.receive()
            if received is None:
                return
            for call_id, _, payload in received:
                if replica.begin(call_id):
                    replica.send(self._call(call_id, payload))

    def _call(self, call_id: int, payload: bytes) -> bytes:
        replica = self._replica
        entry, arguments, run_id, fault = prepare(replica.app.entries, payload)
        if entry is None:
            return frames.pack(frames.FAILED, call_id, fault)
        CURRENT_RUN.set(run_id)
        started = perf_counter()
        try:
            try:
                self._enter(call_id)
                value = entry.call(arguments)
            finally:
                self._current = 0  # Within the outer `try`: a cancel that lands just before this is caught too.
            ended = perf_counter()
            if is_iterator(value):
                return self._stream(call_id, value, started)
        except RunCancelled:
            return frames.pack(frames.CANCELLED, call_id)
        except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is its outcome
            return raised_frame(call_id, error, (perf_counter() - started) * 1000)
        finally:
            CURRENT_RUN.set("")
            finish_lines(run_id)
        return result_frame(call_id, value, (ended - started) * 1000, self._encode, replica.order.max_result_bytes)

    def _stream(self, call_id: int, iterator: Iterator[Any], started: float) -> bytes:
        replica = self._replica
        outbox = replica.outbox
        credit = self._credit = Credit(outbox)
        self._streaming = call_id
        chunks = Chunks(call_id, self._encode, replica.order.max_chunk_bytes)
        try:
            outbox.hold(frames.pack(frames.STREAM, call_id))
            try:
                is_whole = send_all(iterator, chunks, outbox, credit, lambda: self._enter(call_id), self._leave)
            finally:
                self._current = 0
            if not is_whole:
                return frames.pack(frames.CANCELLED, call_id)
            return frames.pack(frames.END, call_id, frames.MILLISECONDS.pack(_since(started)))
        except NotJson as error:
            return unsendable_frame(call_id, error, _since(started))
        finally:
            self._streaming = 0
            _close(iterator)

    def _enter(self, call_id: int) -> None:
        self._current = call_id
        if self._cancel_id == call_id:  # It came before there was anything to interrupt.
            self._current = 0  # Its signal may still be on the way, and must not raise a second time.
            raise RunCancelled

    def _leave(self) -> None:
        self._current = 0

    def _cancel(self, call_id: int) -> None:
        """On the control thread. Writes before it reads, as `_enter` does: one of the two sees the other."""
        if call_id < self._cancel_id:
            return  # That call is over; the one noted may not have been entered yet.
        self._cancel_id = call_id
        if self._streaming == call_id and self._credit:
            self._credit.cancel()
        if self._current == call_id:
            signal.pthread_kill(self._main, _CANCEL_SIGNAL)
            with suppress(RuntimeError):  # The app may have used up the threads that it may have.
                threading.Thread(target=self._repeat, args=(call_id,), daemon=True).start()

    def _repeat(self, call_id: int) -> None:
        """Sends the signal again until it was acted on.

        One that arrives just before a system call that waits, such as that of `time.sleep`, is only noted. The next one
        interrupts the wait.
        """
        for _ in range(_REPEATS):
            sleep(_REPEAT_SECONDS)
            if self._current != call_id:
                return
            signal.pthread_kill(self._main, _CANCEL_SIGNAL)

    def _on_cancel_signal(self, _number: int, _frame: Any) -> None:
        if self._current and self._current == self._cancel_id:
            self._current = 0
            raise RunCancelled

    def _grant(self, call_id: int, count_bytes: int) -> None:
        if self._streaming == call_id and self._credit:
            self._credit.add(count_bytes)


def _since(started: float) -> float:
    return (perf_counter() - started) * 1000


def _close(iterator: Iterator[Any]) -> None:
    close = getattr(iterator, "close", None)
    if close:
        close()
