"""What the ways of running calls share: the replica with its wire, and one call from its first frame to its last."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from json import decoder, dumps, scanner
from time import perf_counter
from traceback import format_exception, print_exception
from typing import Any, Callable, NoReturn, TypeVar

from . import frames
from .app import App, Order
from .bind import Entry, Unfit
from .checkpoints import NOTED, end_notes
from .chunks import Chunks, Credit, Outbox, send_all
from .current import RunCancelled, RunId, of_call
from .encode import NotJson, TooLarge
from .frames import MESSAGE_CHARS, NAME_CHARS, RETRY_AFTER_SECONDS, TRACEBACK_CHARS, TYPES
from .logs import CURRENT_RUN, finish_lines, shorten
from .signs import NoRetry
from .traces import attach

Key = TypeVar("Key")

_PLAIN = frozenset((dict, list, tuple, str, int, float, bool, type(None)))
_HERE = os.path.dirname(os.path.abspath(__file__))
#: Folders whose frames are not the user's.
_OURS = (_HERE, os.path.join(os.path.dirname(_HERE), "millrace_cog"))
_make_scanner: Any = getattr(scanner, "c_make_scanner", None)
_scan = _make_scanner(decoder.JSONDecoder()) if _make_scanner else None
# What a class and an exception really are: their own attributes of these names may be code of the user's.
_NAME: Callable[[type], str] = type.__dict__["__name__"].__get__
_MODULE: Callable[[type], object] = type.__dict__["__module__"].__get__
_MRO: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_TRACEBACK: Callable[[BaseException], Any] = BaseException.__dict__["__traceback__"].__get__


class Replica:
    """A replica: its connections and its calls."""

    def __init__(self, order: Order, app: App, wire: socket.socket, control: socket.socket) -> None:
        self.order = order
        self.app = app
        self.wire = wire
        self.control = control
        self.outbox = Outbox(wire)
        self.send = self.outbox.send
        #: Set by the way of running: stop a begun call, grant bytes to one.
        self.cancel: Callable[[int], None] = lambda call_id: None
        self.grant: Callable[[int, int], None] = lambda call_id, count_bytes: None
        #: Runs the app's `setup`; an event loop runs one that is `async def`.
        self.set_up: Callable[[Entry], object] = lambda setup: setup.function()
        #: The service has sent STOP, and closes the wire after the last call.
        self.is_stopping = False
        self._is_fork = False
        self._begin_lock = threading.Lock()
        self._begun = 0
        #: Beside steppers, whose calls never wait for others: the ids of calls that wait for their turn.
        self._behind: set[int] = set()
        #: Takes a frame (call id, type, payload) if its call is a stepper's; None if the app has no steppers.
        self.take_stepped: Callable[[int, int, bytes], bool] | None = None
        self._withdrawn: set[int] = set()
        #: The RESUME and the TRACE of calls that have not begun.
        self.resumed: dict[int, bytes] = {}
        self.traced: dict[int, bytes] = {}

    def begin(self, call_id: int) -> bool:
        """Begins a call, unless it was withdrawn; afterwards it cannot be."""
        with self._begin_lock:
            if call_id in self._withdrawn:
                self._withdrawn.discard(call_id)
                self.resumed.pop(call_id, None)
                self.traced.pop(call_id, None)
                return False
            self._behind.discard(call_id)
            if call_id > self._begun:
                self._begun = call_id
        return True

    def begin_all(self, call_ids: range) -> set[int]:
        """Begins calls that came together; returns those that were withdrawn."""
        with self._begin_lock:
            withdrawn = {call_id for call_id in self._withdrawn if call_id in call_ids}
            self._withdrawn -= withdrawn
            self._behind.difference_update(call_ids)
            self._begun = max(self._begun, call_ids.stop - 1)
        return withdrawn

    def wait_behind(self, call_ids: range) -> None:
        """Notes that calls wait for their turn, while calls of steppers that came later begin."""
        with self._begin_lock:
            self._behind.update(call_id for call_id in call_ids if call_id not in self._withdrawn)

    def withdraw(self, call_id: int) -> bool:
        """Withdraws a call that has not begun. Calls begin in the order of their ids."""
        with self._begin_lock:
            if call_id <= self._begun and call_id not in self._behind:
                return False
            self._behind.discard(call_id)
            self._withdrawn.add(call_id)
        return True

    def stop_reading(self) -> None:
        """Ends reading as if the service had closed the wire; calls that have begun continue."""
        try:
            if not self.is_stopping:
                self.wire.shutdown(socket.SHUT_RD)
        except OSError:
            pass

    def give_up(self, error: BaseException) -> NoReturn:
        """Crashes after a fault of the harness itself, so that the service notices and no call hangs."""
        if not self._is_fork:
            print_exception(type(error), error, error.__traceback__)
        os._exit(1)

    def left_by_fork(self) -> None:
        """Closes the connections in a child that the user's code forked."""
        self._is_fork = True
        self.outbox.left_by_fork()
        self.wire.close()
        self.control.close()


def run_here(
    replica: Replica,
    call_id: int,
    payload: bytes,
    encode: Callable[[Any], bytes],
    key: Key,
    enter: Callable[[Key], None],
    leave: Callable[[Key], None],
    begin_stream: Callable[[Key, Credit], None],
) -> bytes:
    """Runs a call on this thread; returns its last frame. A cancel may raise RunCancelled only between `enter` and
    `leave`, which know the call by `key`.
    """
    resumed = replica.resumed.pop(call_id, None) if replica.resumed else None
    traced = replica.traced.pop(call_id, None) if replica.traced else None
    entry, arguments, run_id, fault = prepare(replica.app.entries, payload, call_id, resumed, traced)
    if entry is None:
        return frames.pack(frames.FAILED, call_id, fault)
    CURRENT_RUN.set(run_id)
    detach = attach(traced) if traced else None
    started = perf_counter()
    try:
        try:
            enter(key)
            value = entry.call(arguments)
        finally:
            leave(key)  # Within the outer `try`: a cancel that lands just before this is caught too.
        run_ms = since(started)
        if is_iterator(value):
            credit = Credit(replica.outbox)
            begin_stream(key, credit)
            chunks = Chunks(call_id, encode, replica.order.max_chunk_bytes)
            return _stream(value, chunks, credit, call_id, started, lambda: enter(key), lambda: leave(key))
    except RunCancelled:
        return frames.pack(frames.CANCELLED, call_id)
    except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is its outcome
        return raised_frame(call_id, error, since(started))
    finally:
        if detach:
            detach()
        CURRENT_RUN.set("")
        run_id.is_over = True
        if NOTED:
            end_notes(call_id)
        finish_lines(run_id)
    return last_frame(call_id, run_id, value, run_ms, encode, replica.order.max_result_bytes)


def last_frame(
    call_id: int, run_id: RunId, value: Any, run_ms: float, encode: Callable[[Any], bytes], limit: int
) -> bytes:
    """The frame of a value that the function has returned; or of what the code raises that converts it."""
    try:
        return result_frame(call_id, value, run_ms, encode, limit)
    except BaseException as error:  # noqa: BLE001 - a conversion such as model_dump is the user's code too
        before = CURRENT_RUN.set(run_id)
        try:
            return raised_frame(call_id, error, run_ms)
        finally:
            CURRENT_RUN.reset(before)
            finish_lines(run_id)


def _stream(
    iterator: Iterator[Any],
    chunks: Chunks,
    credit: Credit,
    call_id: int,
    started: float,
    enter: Callable[[], None],
    leave: Callable[[], None],
) -> bytes:
    try:
        credit.outbox.hold(frames.pack(frames.STREAM, call_id))
        try:
            is_whole = send_all(iterator, chunks, credit, enter, leave)
        finally:
            leave()
        if not is_whole:
            return frames.pack(frames.CANCELLED, call_id)
        return frames.pack(frames.END, call_id, frames.MILLISECONDS.pack(since(started)))
    except NotJson as error:
        return unsendable_frame(call_id, error, since(started))
    finally:
        close(iterator)


def close(iterator: Any) -> None:
    end = getattr(iterator, "close", None)
    if end:
        end()


def since(started: float) -> float:
    return (perf_counter() - started) * 1000


def prepare(
    entries: dict[str, Entry],
    payload: bytes,
    call_id: int = 0,
    resumed: bytes | None = None,
    traced: bytes | None = None,
) -> tuple[Entry | None, dict[str, Any], RunId, bytes]:
    """The function, its arguments and the run's id; or None for the function, and the payload of a FAILED frame."""
    name, (plain_id, attempt, limit_ms, body) = frames.split_call(payload)
    run_id = of_call(plain_id, attempt, limit_ms, call_id, resumed, traced)
    entry = entries.get(name)
    if entry is None:
        return None, {}, run_id, b'{"kind":"no_function"}'
    arguments, fault = fit(entry, body)
    if fault:
        return None, {}, run_id, fault
    if entry.wants_run_id:
        arguments["run_id"] = plain_id
    return entry, arguments, run_id, b""


def fit(entry: Entry, body: bytes) -> tuple[dict[str, Any], bytes]:
    """A call's arguments; and the payload of a FAILED frame if they do not fit."""
    arguments: dict[str, Any] = {}
    if body:
        # The service has checked the text. The bare scanner spares json.loads' detection and two regular expressions: a
        # microsecond a call.
        text = body.decode()
        arguments = _scan(text, 0)[0] if _scan and text[0] == "{" else json.loads(text)
    given = arguments.keys()
    if not (entry.required <= given and given <= entry.accepted):
        misfits, more = entry.misfits(arguments)
        if misfits:
            return {}, dumps({"kind": "misfit", "details": misfits, "more": more}).encode()
    return arguments, b""


def is_iterator(value: Any) -> bool:
    return type(value) not in _PLAIN and hasattr(type(value), "__next__")


def result_frame(call_id: int, value: Any, run_ms: float, encode: Callable[[Any], bytes], limit: int) -> bytes:
    """RESULT, or FAILED if the value is not JSON or too large."""
    try:
        body = encode(value)
    except NotJson as error:
        return unsendable_frame(call_id, error, run_ms)
    if len(body) > limit:
        error = TooLarge("the result is %d bytes of JSON, max_result is %d" % (len(body), limit))
        return unsendable_frame(call_id, error, run_ms)
    status = 0
    if type(value) is dict and "status_code" in value:
        wanted = value["status_code"]
        if type(wanted) is int and 200 <= wanted <= 599:
            status = wanted
    head = frames.RESULT_HEAD
    return frames.HEAD.pack(head.size + len(body), call_id, frames.RESULT) + head.pack(run_ms, status) + body


def unsendable_frame(call_id: int, error: NotJson, run_ms: float) -> bytes:
    """FAILED, for a value that cannot be sent."""
    fields = {"kind": "unsendable", "code": error.code, "message": str(error)[:MESSAGE_CHARS], "run_ms": run_ms}
    return frames.pack(frames.FAILED, call_id, dumps(fields).encode())


def raised_frame(call_id: int, error: BaseException, run_ms: float) -> bytes:
    """FAILED, for an exception of the user's code: data, never a pickle. The traceback also goes to the run's log."""
    if type(error) is Unfit:
        return frames.pack(frames.FAILED, call_id, dumps(error.describe()).encode())
    message, text = describe_exception(error)
    try:
        sys.stderr.write(text)
    except Exception:  # noqa: BLE001 - the app may have put anything in the stream's place
        pass
    # Not by `isinstance`, which asks the exception.
    code = "out_of_memory" if issubclass(type(error), MemoryError) else "app_error"
    fields = {"kind": "raised", "code": code, "message": message, "traceback": text, "run_ms": run_ms}
    fields.update(_for_retry(error))
    return frames.pack(frames.FAILED, call_id, dumps(fields).encode())


def _for_retry(error: BaseException) -> dict[str, Any]:
    """What rules for further attempts go by: the names of its classes, the wait that it asks for, and whether it asks
    for none.
    """
    kind = type(error)
    names: list[str] = []
    wait: object = None
    try:
        # Without what a metaclass says of its classes.
        line = _MRO(kind)
        for each in line[: line.index(BaseException)]:
            names.append(_NAME(each))
            module: object = _MODULE(each)
            if type(module) is str and module not in ("builtins", "__main__"):
                names.append("%s.%s" % (module, _NAME(each)))
    except BaseException:  # noqa: BLE001 - a metaclass may have made an order of its own
        pass
    try:
        wait = getattr(error, "retry_after", None)
    except BaseException:  # noqa: BLE001 - a property of the user's may raise anything
        pass
    asked: dict[str, Any] = {"types": [name for name in names if len(name) <= NAME_CHARS][:TYPES]}
    if (type(wait) is int or type(wait) is float) and wait >= 0:  # False for NaN.
        asked["retry_after"] = min(wait, RETRY_AFTER_SECONDS)
    if issubclass(kind, NoRetry):
        asked["for_good"] = True
    return asked


def describe_exception(error: BaseException) -> tuple[str, str]:
    """`Type: text`, and the traceback without the harness's own frames."""
    name = _NAME(type(error))
    try:
        text = str.__str__(str(error))  # Plain text, also from a class of the user's.
    except BaseException:  # noqa: BLE001 - a user's __str__ may fail, or exit
        text = "(its __str__ failed)"
    message = "%s: %s" % (name, text) if text else name
    trace = _TRACEBACK(error)
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    try:
        lines = format_exception(type(error), error, trace)
    except BaseException:  # noqa: BLE001 - formatting runs user code too
        lines = [message + "\n"]
    return message[:MESSAGE_CHARS], shorten("".join(lines))[-TRACEBACK_CHARS:]
