"""Steppers: classes of `main.py` that run many calls at once, step by step, each in a thread of its own.

A stepper is constructed and used by that thread alone, so that what it sets for its thread stays set. The thread that
reads the wire brings calls, and the control thread cancels and grants. Both also send for calls of a stepper, as a step
may take long. So frames of its calls are sent only under its lock, after a look at whether the call is still live.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections import deque
from time import perf_counter
from typing import Any, NoReturn

from . import frames
from .batch_streams import print_exception, stalled_frame
from .call import Replica, prepare, raised_frame, since, unsendable_frame
from .chunks import INITIAL_CREDIT_BYTES, Chunks, Flow
from .encode import NotJson, make_encoder, to_utf8
from .logs import CURRENT_RUN, finish_lines
from .signs import END, SKIP
from .stepped import SteppedEntry, read_capacity

#: A stepper that returns nothing is asked again after this pause, unless its step took longer than the second: it may
#: work without having anything to send, but must not use a processor for nothing.
_PAUSE_SECONDS = 0.001
_QUICK_SECONDS = 0.0002


class Steppers:
    """The steppers of a replica, beside its way of running other calls."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._steppers = {name.encode(): Stepper(replica, each) for name, each in replica.app.steppers.items()}
        self._all = tuple(self._steppers.values())
        self._cancel_other, self._grant_other = replica.cancel, replica.grant
        replica.cancel, replica.grant, replica.take_stepped = self._cancel, self._grant, self.take

    def start(self) -> dict[str, int]:
        """Constructs them; returns how many calls each takes, by function. Raises what a constructor raises."""
        return {stepper.name: stepper.start() for stepper in self._all}

    def take(self, call_id: int, kind: int, payload: bytes) -> bool:
        """Begins a call if it is a stepper's, and returns whether it is. Knows of every call, in their order."""
        count = 1 if kind == frames.CALL else frames.count_of(payload)
        stepper = self._steppers.get(frames.name_of(payload)) if kind == frames.CALL else None
        if stepper is None:
            self._replica.wait_behind(range(call_id, call_id + count))
            return False
        stepper.take(call_id, payload)
        return True

    def drain(self) -> None:
        """Waits for the calls that were taken."""
        for stepper in self._all:
            stepper.drain()

    def _cancel(self, call_id: int) -> None:
        if not any(stepper.cancel(call_id) for stepper in self._all):
            self._cancel_other(call_id)

    def _grant(self, call_id: int, count_bytes: int) -> None:
        if not any(stepper.grant(call_id, count_bytes) for stepper in self._all):
            self._grant_other(call_id, count_bytes)


class _Call:
    """A call, from its arrival to its last frame."""

    __slots__ = ("id", "payload", "run_id", "chunks", "started", "left_bytes", "behind", "last")

    def __init__(self, call_id: int, payload: bytes, chunks: Chunks) -> None:
        self.id = call_id
        self.payload = payload
        self.run_id = ""
        self.chunks = chunks
        self.started = 0.0
        #: Its credit. The last chunk that was sent may have cost more.
        self.left_bytes = INITIAL_CREDIT_BYTES
        #: While its reader lags, that is without credit: the chunks that wait. None while it does not.
        self.behind: _Behind | None = None
        #: The call's last frame, if that waits behind chunks.
        self.last: bytes | None = None


class _Behind:
    __slots__ = ("frames", "total_bytes")

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self.total_bytes = 0


class Stepper:
    """One stepper, with the thread that drives it."""

    def __init__(self, replica: Replica, entry: SteppedEntry) -> None:
        self.name = entry.name
        self._replica = replica
        self._outbox = replica.outbox
        self._entry = entry
        self._entries: dict[str, Any] = {entry.name: entry}
        self._limit_bytes = replica.order.max_chunk_bytes
        self._encode = make_encoder()
        self._app: Any = None
        self._capacity = 0
        self._failure: BaseException | None = None
        self._ready = threading.Event()
        #: The app's method that runs, and since when.
        self._inside = ""
        self._inside_since = 0.0
        self._flow = Flow()
        self._flow_bytes = 0
        self._has_warned = False
        self._pid = os.getpid()
        # Everything below is under this lock, and `_has_news` is set with what the thread must not miss.
        self._changed = threading.Condition()
        self._has_news = False
        #: All live calls, by their ids on the wire.
        self._calls: dict[int, _Call] = {}
        self._new: list[_Call] = []
        #: What the app has, by run: calls that it has taken, runs that it has to remove, and calls whose readers lag.
        self._open: dict[str, _Call] = {}
        self._left: list[str] = []
        #: Calls that a step has failed, and how.
        self._failed: list[tuple[_Call, BaseException]] = []
        self._paused: set[str] = set()
        self._paused_shown: frozenset[str] | None = frozenset()

    def start(self) -> int:
        """Constructs the app's class; returns how many calls it takes at a time. Raises what the class raises."""
        threading.Thread(target=self._work, name="millrace-stepper-" + self.name, daemon=True).start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self._capacity

    def take(self, call_id: int, payload: bytes) -> None:
        call = _Call(call_id, payload, Chunks(call_id, self._encode, self._limit_bytes))
        with self._changed:
            # Under the lock: a cancel that comes when the call has begun has to find it.
            if not self._replica.begin(call_id):
                return
            self._calls[call_id] = call
            self._new.append(call)
            self._tell()

    def cancel(self, call_id: int) -> bool:
        """Ends a call at once, whatever the step takes; returns whether it was live."""
        with self._changed:
            call = self._calls.get(call_id)
            if call is None:
                return False
            self._drop(call)
            self._outbox.send(self._end(call, frames.pack(frames.CANCELLED, call_id)))
            self._tell()
            stuck_in = self._inside if self._is_stuck(call) else ""
        if stuck_in:
            self._give_up("has not returned from %s() for as long as a run may take" % stuck_in)
        return True

    def grant(self, call_id: int, count_bytes: int) -> bool:
        with self._changed:
            call = self._calls.get(call_id)
            if call is None:
                return False
            call.left_bytes += count_bytes
            if call.behind is not None:
                self._catch_up(call, call.behind)
        return True

    def drain(self) -> None:
        with self._changed:
            while self._calls:
                self._changed.wait()

    # Under the lock.

    def _tell(self) -> None:
        self._has_news = True
        self._changed.notify_all()

    def _end(self, call: _Call, frame: bytes) -> bytes:
        """Forgets a call, whose last frame this is. The app has been told, or will be."""
        del self._calls[call.id]
        if not self._calls:
            self._changed.notify_all()
        return frame

    def _drop(self, call: _Call) -> None:
        """Has the app remove a call, if it has it."""
        if self._open.get(call.run_id) is call:
            self._close(call)
            self._left.append(call.run_id)

    def _close(self, call: _Call) -> None:
        """The app is done with a call."""
        del self._open[call.run_id]
        if call.behind is not None:
            self._paused.discard(call.run_id)
            self._paused_shown = None

    def _is_stuck(self, call: _Call) -> bool:
        """The app never got this call, as one of its methods runs for longer than a call may. Nothing else ends it."""
        limit_ms = frames.split_call(call.payload)[1].limit_ms if self._inside and call.payload else 0
        return bool(limit_ms) and since(self._inside_since) >= limit_ms

    def _finish(self, call: _Call, frame: bytes, out: list[bytes]) -> None:
        """Sends the last frame of a call, or lets it wait behind the chunks that wait."""
        if call.behind is not None and call.behind.frames:
            call.last = frame
        else:
            out.append(self._end(call, frame))

    def _catch_up(self, call: _Call, behind: _Behind) -> None:
        """Sends what waits for credit, as far as that goes."""
        out: list[bytes] = []
        while behind.frames and call.left_bytes > 0:
            frame = behind.frames.popleft()
            behind.total_bytes -= len(frame)
            call.left_bytes -= len(frame)
            out.append(frame)
        if not behind.frames and call.last is not None:
            out.append(self._end(call, call.last))
        elif not behind.frames and call.left_bytes > 0:
            call.behind = None
            self._paused.discard(call.run_id)
            self._paused_shown = None
            self._tell()
        if out:
            self._outbox.send(b"".join(out))

    # In the stepper's own thread.

    def _work(self) -> None:
        try:
            self._construct()
        except BaseException as error:  # noqa: BLE001 - told as a failure of `setup` is
            self._failure = error
            return
        finally:
            self._ready.set()
        try:
            while True:
                self._turn()
        except BaseException as error:  # noqa: BLE001 - its calls must not wait for a thread that has died
            self._replica.give_up(error)

    def _construct(self) -> None:
        try:
            app = self._entry.kind()
            self._capacity = read_capacity(app, self._entry)
        finally:
            finish_lines("")
        self._app = app

    def _turn(self) -> None:
        """Brings the app up to date, and has it make a step if it has any call."""
        with self._changed:
            while not (self._has_news or self._open):
                self._changed.wait()
            self._has_news = False
            left, self._left = self._left, []
            new, self._new = self._new, []
        for run_id in left:
            self._remove(run_id)
        for call in new:
            self._add(call)
        if self._open:
            self._step()

    def _enter(self, method: str) -> None:
        self._inside_since = perf_counter()
        self._inside = method

    def _remove(self, run_id: str) -> None:
        CURRENT_RUN.set(run_id)
        self._enter("remove")
        try:
            self._app.remove(run_id)
        except BaseException as error:  # noqa: BLE001 - its call has ended already
            print_exception(error)
        finally:
            self._inside = ""
            CURRENT_RUN.set("")
            finish_lines(run_id)
        self._leave_forks()

    def _add(self, call: _Call) -> None:
        if call.id not in self._calls:
            return  # Cancelled.
        entry, arguments, run_id, fault = prepare(self._entries, call.payload)
        call.payload = b""
        call.run_id = str(run_id)  # The app gets the plain one.
        call.started = perf_counter()
        if entry is None:
            self._refuse(call, frames.pack(frames.FAILED, call.id, fault))
            return
        CURRENT_RUN.set(run_id)
        self._enter("add")
        try:
            self._entry.add(self._app, call.run_id, arguments)
        except BaseException as error:  # noqa: BLE001 - whatever the app's code raises is the call's outcome
            self._fail(call, error)
            return
        finally:
            self._inside = ""
            CURRENT_RUN.set("")
            finish_lines(run_id)
        self._leave_forks()
        with self._changed:
            if call.id in self._calls:
                self._open[call.run_id] = call
                self._outbox.send(frames.pack(frames.STREAM, call.id))
                return
        self._remove(call.run_id)  # Cancelled meanwhile.

    def _fail(self, call: _Call, error: BaseException) -> None:
        """Ends a call that the app does not have any more."""
        self._leave_forks()
        CURRENT_RUN.set(call.run_id)
        # Not under the lock: its traceback is written to the log, which may take a moment.
        frame = raised_frame(call.id, error, since(call.started))
        CURRENT_RUN.set("")
        finish_lines(call.run_id)
        self._refuse(call, frame)

    def _refuse(self, call: _Call, frame: bytes) -> None:
        with self._changed:
            if call.id in self._calls:
                out: list[bytes] = []
                self._finish(call, frame, out)
                if out:
                    self._outbox.send(out[0])

    def _step(self) -> None:
        with self._changed:
            paused = self._paused_shown
            if paused is None:
                paused = self._paused_shown = frozenset(self._paused)
        started = perf_counter()
        failure: BaseException | None = None
        made: Any = None
        self._enter("step")
        try:
            made = self._app.step(paused)
            if not isinstance(made, dict):
                kind = self._entry.kind.__name__
                failure = TypeError("%s.step() returned %s, not a dict of ids and chunks" % (kind, type(made).__name__))
        except BaseException as error:  # noqa: BLE001 - whatever the app's code raises is the outcome of its calls
            failure = error
        self._inside = ""
        self._leave_forks()
        if failure is not None:
            self._fail_all(failure)
            failure = made = None  # What they refer to may be as large as the stepper.
            self._construct_again()
            return
        took_seconds = perf_counter() - started
        with self._changed:
            is_empty = not self._send(tuple(dict.items(made)))
        if self._failed:
            failed, self._failed = self._failed, []
            for call, error in failed:
                self._fail(call, error)
        with self._changed:
            if not is_empty or self._has_news:
                return
            if len(self._paused) == len(self._open):
                while not self._has_news and self._open:
                    self._changed.wait()
            elif took_seconds < _QUICK_SECONDS:
                self._changed.wait(_PAUSE_SECONDS)

    def _send(self, made: tuple[tuple[Any, Any], ...]) -> bool:
        """Sends what a step made, in one write; returns whether there was anything."""
        out: list[bytes] = []
        put = out.append
        find, calls_before = self._open.get, len(self._calls)
        head_bytes = frames.CHUNK_HEAD.size
        is_empty = True
        for run_id, value in made:
            call = find(run_id)
            if call is None:
                self._warn(run_id)
                continue
            try:
                if type(value) is str:
                    try:
                        body = value.encode()
                    except UnicodeEncodeError:
                        body = to_utf8(value)
                    size = len(body)
                    # Two pieces: one that joins them costs as much as the rest of this turn.
                    head = call.chunks[size]
                    size += head_bytes
                elif value is SKIP:
                    continue
                elif value is END:
                    self._close(call)
                    self._finish(call, frames.pack(frames.END, call.id, _run_ms(call)), out)
                    continue
                elif issubclass(type(value), BaseException):  # Not by `isinstance`, which asks the value.
                    self._close(call)
                    self._failed.append((call, value))
                    continue
                else:
                    head = call.chunks.frame(value)
                    size, body = len(head), b""
            except NotJson as error:
                self._drop(call)
                self._finish(call, unsendable_frame(call.id, error, since(call.started)), out)
                continue
            except BaseException as error:  # noqa: BLE001 - of the code that converts a value of the app's
                self._drop(call)
                self._failed.append((call, error))
                continue
            is_empty = False
            left_bytes = call.left_bytes - size
            if left_bytes > 0:
                call.left_bytes = left_bytes
                put(head)
                put(body)
            elif call.behind is None:
                call.left_bytes = left_bytes
                out += (head, body)
                call.behind = _Behind()
                self._paused.add(call.run_id)
                self._paused_shown = None
            else:
                self._put_behind(call, call.behind, head + body, out)
        if out:
            data = b"".join(out)
            if len(self._calls) != calls_before:
                self._outbox.send(data)
            else:
                self._outbox.waiting.append(data)
                self._flow_bytes += len(data)
                self._outbox.look(self._flow, self._flow_bytes, sys.maxsize)
        if self._left:
            self._has_news = True
        return not is_empty or len(self._calls) != calls_before

    def _put_behind(self, call: _Call, behind: _Behind, frame: bytes, out: list[bytes]) -> None:
        if behind.total_bytes + len(frame) > self._limit_bytes + frames.CHUNK_HEAD.size:
            self._drop(call)
            behind.frames.clear()
            out.append(self._end(call, stalled_frame(call.id)))
        else:
            behind.frames.append(frame)
            behind.total_bytes += len(frame)

    def _warn(self, run_id: Any) -> None:
        if not self._has_warned:
            self._has_warned = True
            kind = self._entry.kind.__name__
            text = (
                "[millrace] %s.step() returned a chunk for %.100r, which it does not have: ignored, as all further ones"
            )
            try:
                print(text % (kind, run_id), file=sys.stderr, flush=True)
            except Exception:  # noqa: BLE001 - the app may have closed the stream; a key's repr is the app's code too
                pass

    def _fail_all(self, error: BaseException) -> None:
        """Ends the calls that the app has. The app's object is of no use any more."""
        with self._changed:
            calls = list(self._open.values())
            for call in calls:
                self._close(call)
            self._left.clear()
        for call in calls:
            self._fail(call, error)

    def _construct_again(self) -> None:
        # What it holds may not fit twice.
        self._app = None
        gc.collect()
        try:
            self._construct()
        except BaseException as error:  # noqa: BLE001 - as in `_work`
            self._give_up("failed, and could not be constructed again", error)

    def _give_up(self, why: str, error: BaseException | None = None) -> NoReturn:
        text = "[millrace] %s %s: this replica ends" % (self._entry.kind.__name__, why)
        print(text, file=sys.stderr, flush=True)
        self._replica.give_up(error or TimeoutError(text))

    def _leave_forks(self) -> None:
        if os.getpid() != self._pid:
            os._exit(0)  # The app's code forked and returned in the child, which must not send.


def _run_ms(call: _Call) -> bytes:
    return frames.MILLISECONDS.pack(since(call.started))
