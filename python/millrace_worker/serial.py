"""One call at a time, on the main thread, which also reads the wire.

Handing each call from a reader thread to another would cost 40 µs a call (measured: 130 against 90 µs).
"""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from time import sleep
from typing import Any

from . import frames
from .call import Replica, RunCancelled, run_here
from .chunks import Credit
from .encode import make_encoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .batch import Batch

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
        self._encode = make_encoder()
        self._current = 0
        self._cancel_id = 0
        self._credit: Credit | None = None
        self._streaming = 0
        self._batch: Batch[int] | None = None
        self._main = threading.main_thread().ident or 0
        replica.cancel = self._cancel
        replica.grant = self._grant
        signal.signal(_CANCEL_SIGNAL, self._on_cancel_signal)

    def run(self) -> None:
        replica = self._replica
        reader = frames.FrameReader(replica.wire)
        act = self._enter, self._leave, self._begin_stream
        while (received := reader.receive()) is not None:
            for call_id, kind, payload in received:
                if kind == frames.BATCH:
                    self._run_batch(call_id, payload)
                elif kind == frames.RESUME:
                    replica.resumed[call_id] = payload
                elif kind == frames.TRACE:
                    replica.traced[call_id] = payload
                elif replica.begin(call_id):
                    replica.send(run_here(replica, call_id, payload, self._encode, call_id, *act))

    def _run_batch(self, first_id: int, payload: bytes) -> None:
        from .batch import Batch
        from .together import run_together

        # An execution goes by the last of its calls. After one was stopped, no later one has that call.
        batch = Batch(self._replica, first_id, payload, lambda members: members[-1].call_id)
        self._batch = batch  # Before its calls begin: a cancel may come at any time.
        run_together(batch, self._encode, self._enter, self._leave)
        self._batch = None

    def _enter(self, call_id: int) -> None:
        self._current = call_id
        if self._cancel_id == call_id:  # It came before there was anything to interrupt.
            self._current = 0  # Its signal may still be on the way, and must not raise a second time.
            raise RunCancelled

    def _leave(self, _call_id: int) -> None:
        self._current = 0

    def _begin_stream(self, call_id: int, credit: Credit) -> None:
        self._credit = credit
        self._streaming = call_id

    def _cancel(self, call_id: int) -> None:
        """On the control thread."""
        batch = self._batch
        if batch is None:
            self._stop(call_id)
            return
        execution = batch.cancel(call_id)
        if execution:
            self._stop(execution.key)

    def _stop(self, call_id: int) -> None:
        """Writes before it reads, as `_enter` does: one of the two sees the other."""
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

        One that arrives just before a system call that waits, such as that of `time.sleep`, is only noted. The next
        interrupts it.
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
        elif self._batch:
            self._batch.grant(call_id, count_bytes)
