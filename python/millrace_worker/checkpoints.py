"""What a call tells the service beside its result: checkpoints, each answered once it is stored, and progress."""

from __future__ import annotations

import sys
import threading
from threading import Lock
from time import sleep
from typing import Any, Callable

from . import frames
from .current import RunCancelled, RunId, current
from .encode import NotJson, make_encoder
from .logs import CURRENT_RUN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator

    from .chunks import Outbox

#: The answers to a checkpoint.
STORED, NOT_KEPT, OVER = 0, 1, 2
#: Between two reports of a call's progress.
PROGRESS_SECONDS = 0.1
#: A cancel raises in the thread of its call, which wakes up here first.
_CANCEL_TURNS = 50
_CANCEL_SECONDS = 0.01

_outbox: Outbox | None = None
#: By the id of the call.
NOTED: dict[int, _Notes] = {}
_noting = Lock()


class _Notes:
    """What a call has told, from the first time to its end."""

    def __init__(self, run_id: RunId, call_id: int) -> None:
        self.run_id = run_id
        self.call_id = call_id
        #: Held while a frame is sent, which must not come after the call's last one.
        self.sending = Lock()
        #: Held from a checkpoint to its answer.
        self.turn = Lock()
        #: Takes that answer, once; who takes it from here gives the turn back.
        self.waiter: Callable[[int], None] | None = None
        self._taking = Lock()
        #: The payload of the next PROGRESS; the newest wins.
        self.progress: bytes | None = None

    def send(self, outbox: Outbox, kind: int, payload: bytes) -> bool:
        """False if the call is over."""
        with self.sending:
            if getattr(self.run_id, "is_over", False):
                return False
            outbox.send(frames.pack(kind, self.call_id, payload))
            return True

    def finish(self, status: int) -> bool:
        """Answers the checkpoint that waits, if one does; the next may begin before the waiter knows."""
        with self._taking:
            waiter, self.waiter = self.waiter, None
        if waiter is None:
            return False
        self.turn.release()
        waiter(status)
        return True

    def begin(self, outbox: Outbox, body: bytes, waiter: Callable[[int], None]) -> None:
        """Sends a checkpoint, whose turn it is."""
        self.waiter = waiter
        if not self.send(outbox, frames.CHECKPOINT, body) and self.finish(OVER):
            raise RuntimeError("millrace.checkpoint works only inside a run: this one is over")


def serve(outbox: Outbox) -> None:
    """From now on the code belongs to calls whose frames this sends."""
    global _outbox
    _outbox = outbox


def checkpoint(value: Any) -> Awaitable[None]:
    """`millrace.checkpoint`."""
    outbox = _outbox
    if outbox is None or CURRENT_RUN.get() == "":
        raise RuntimeError("millrace.checkpoint works only inside a run: this code was not called for one")
    call_id = _call_id()
    if not call_id:
        raise RuntimeError("millrace.checkpoint is not for batched functions and steppers")
    run_id = current()[0]
    if outbox.is_fork:
        raise RuntimeError("millrace.checkpoint works in the process of the run, and this one was forked from it")
    try:
        body = make_encoder("checkpoint")(value)
    except NotJson as error:
        raise TypeError(str(error)) from None
    if len(body) > frames.CHECKPOINT_BYTES:
        raise ValueError("the checkpoint is %d bytes of JSON, at most %d fit" % (len(body), frames.CHECKPOINT_BYTES))
    notes = _notes_of(run_id, call_id)
    loop = _running_loop()
    return _wait(outbox, notes, body) if loop is None else _begin(outbox, notes, body, loop)


def _call_id() -> int:
    """The id of the call that this code belongs to; 0 outside any, and in batches and steppers."""
    run_id = CURRENT_RUN.get()
    begun = run_id.begun if isinstance(run_id, RunId) else None
    return begun[3] if begun else 0


def _running_loop() -> Any:
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio and asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Stored:
    """What is stored already, for code that awaits it nevertheless."""

    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield


_STORED = _Stored()


def _wait(outbox: Outbox, notes: _Notes, body: bytes) -> _Stored:
    """Waits in this thread, for the answer to another thread's checkpoint too."""
    answers: list[int] = []
    answered = Lock()
    answered.acquire()

    def take(status: int) -> None:
        answers.append(status)
        try:
            answered.release()
        except RuntimeError:
            pass  # A cancel and the answer may both come.

    notes.turn.acquire()
    notes.begin(outbox, body, take)
    # A cancel that raises here leaves the turn to the answer, which comes nevertheless.
    answered.acquire()
    if answers[0] == OVER:
        for _ in range(_CANCEL_TURNS):
            sleep(_CANCEL_SECONDS)
        raise RunCancelled
    return _STORED


def _begin(outbox: Outbox, notes: _Notes, body: bytes, loop: Any) -> Awaitable[None]:
    """Sends it now, after all chunks so far; the event loop goes on meanwhile."""
    if not notes.turn.acquire(False):
        raise RuntimeError("the checkpoint before this one is still being stored: await it first")
    future = loop.create_future()

    def settle(status: int) -> None:
        if future.done():
            return
        if status == OVER:
            future.cancel()
        else:
            future.set_result(None)

    def take(status: int) -> None:
        try:
            loop.call_soon_threadsafe(settle, status)
        except RuntimeError:
            pass  # The loop is closed.

    notes.begin(outbox, body, take)
    return future


def answer(call_id: int, status: int) -> None:
    """On the control thread: the service has answered a checkpoint."""
    notes = NOTED.get(call_id)
    if notes:
        notes.finish(status)


def interrupt(call_id: int) -> None:
    """The call was cancelled: its thread does not wait for an answer any more."""
    notes = NOTED.get(call_id)
    waiter = notes and notes.waiter
    if waiter:
        waiter(OVER)


def end_notes(call_id: int) -> None:
    """Sends what is left to tell, before the last frame of the call."""
    notes = NOTED.pop(call_id, None)
    if notes is None:
        return
    with notes.sending:  # What is being sent now comes before it too.
        payload, notes.progress = notes.progress, None
        if payload is not None and _outbox:
            _outbox.hold(frames.pack(frames.PROGRESS, call_id, payload))
    notes.finish(OVER)


def _notes_of(run_id: RunId, call_id: int) -> _Notes:
    with _noting:
        notes = NOTED.get(call_id)
        if notes is None:
            notes = _Notes(run_id, call_id)
            # Before `send` looks whether the call is over, which is set before its end looks here: one sees the other.
            NOTED[call_id] = notes
            if getattr(run_id, "is_over", False):
                del NOTED[call_id]
        return notes


def progress(fraction: float | None, message: str | None) -> None:
    """`millrace.progress`."""
    if fraction is not None and (isinstance(fraction, bool) or not hasattr(fraction, "__float__")):
        raise TypeError("millrace.progress takes a number from 0 to 1, or None, not %r" % (fraction,))
    if not isinstance(message, (str, type(None))):  # pyright: ignore[reportUnnecessaryIsInstance] - of an app
        raise TypeError("the message of millrace.progress is a text, not %r" % (message,))
    outbox = _outbox
    call_id = _call_id()
    if outbox is None or outbox.is_fork or not call_id:
        return
    run_id = current()[0]
    try:
        share = float("nan") if fraction is None else float(fraction)
    except OverflowError:  # An integer that no float can hold.
        share = float("nan")
    share = min(1.0, max(0.0, share)) if share - share == 0 else float("nan")
    # Plain text, also from a class of the app's.
    text = str.__str__(message or "")[: frames.PROGRESS_CHARS].encode("utf-8", "replace")
    notes = _notes_of(run_id, call_id)
    notes.progress = frames.FRACTION.pack(share) + text
    _reporter.wake(outbox)


class _Reporter:
    """Sends progress from a thread of its own, so that no function ever waits for the wire."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_awake = False
        self._has_thread = False
        self._wake = threading.Semaphore(0)

    def wake(self, outbox: Outbox) -> None:
        if self._is_awake:
            return
        with self._lock:
            if self._is_awake:
                return
            if not self._has_thread:
                try:
                    threading.Thread(
                        target=self._report_forever, args=(outbox,), name="millrace-progress", daemon=True
                    ).start()
                except Exception:  # noqa: BLE001 - the host has no thread left: the end of the call sends the newest
                    return
                self._has_thread = True
            self._is_awake = True
            self._wake.release()

    def _report_forever(self, outbox: Outbox) -> None:
        while True:
            self._wake.acquire()
            while self._report(outbox):
                sleep(PROGRESS_SECONDS)
            self._is_awake = False
            # A report that came before that line has woken no one.
            if any(notes.progress is not None for notes in list(NOTED.values())):
                self.wake(outbox)

    def _report(self, outbox: Outbox) -> bool:
        """Whether there was anything to tell."""
        has_told = False
        for notes in list(NOTED.values()):
            with notes.sending:
                payload, notes.progress = notes.progress, None
                if payload is None or getattr(notes.run_id, "is_over", False):
                    continue
                outbox.send(frames.pack(frames.PROGRESS, notes.call_id, payload))
                has_told = True
        return has_told


_reporter = _Reporter()
