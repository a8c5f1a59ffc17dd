"""Calls that came together: run as one execution, and in halves after the function has raised.

A batch says what to run next and takes what became of it; the ways of running differ in how they run it and stop it.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from time import monotonic, perf_counter
from typing import Any, Callable, Generic, TypeVar

from . import frames
from .bind import Entry
from .call import Replica, fit, raised_frame, result_frame, since
from .chunks import INITIAL_CREDIT_BYTES, Chunks
from .current import RunId, of_call, of_several
from .logs import CURRENT_RUN
from .traces import attach, do_nothing

Key = TypeVar("Key")


class MemberStream:
    """The stream of one call. All of it happens under the lock of its batch."""

    __slots__ = ("chunks", "granted_bytes", "sent_bytes", "held", "last")

    def __init__(self, chunks: Chunks) -> None:
        self.chunks = chunks
        self.granted_bytes = INITIAL_CREDIT_BYTES
        self.sent_bytes = 0
        #: Frames of chunks that wait for credit.
        self.held = bytearray()
        #: The call's last frame, which waits for these.
        self.last: bytes | None = None

    @property
    def has_room(self) -> bool:
        return self.sent_bytes < self.granted_bytes

    def grant(self, count_bytes: int) -> bytes:
        """The frames that may now be sent."""
        self.granted_bytes += count_bytes
        end = 0
        while end < len(self.held) and self.has_room:
            size = frames.HEAD_BYTES + frames.HEAD.unpack_from(self.held, end)[0]
            self.sent_bytes += size
            end += size
        released = bytes(self.held[:end])
        del self.held[:end]
        return released

    def end(self, frame: bytes) -> bool:
        """Keeps the last frame if chunks wait; False if it can be sent."""
        if self.last is None and not self.held:
            return False
        self.last = self.last or frame
        return True


class Member:
    """One of the calls."""

    __slots__ = ("call_id", "given", "run", "traced", "until", "arguments", "stream", "is_cancelled", "is_over")

    def __init__(self, call_id: int, given: frames.Given, now: float, traced: bytes | None) -> None:
        self.call_id = call_id
        self.given = given
        self.run = of_call(given.run_id, given.attempt, given.limit_ms, traced=traced)
        #: The payload of its TRACE.
        self.traced = traced
        #: When the service gives up on it.
        self.until = now + given.limit_ms / 1000 if given.limit_ms else float("inf")
        self.arguments: dict[str, Any] = {}
        #: Set once its function has yielded.
        self.stream: MemberStream | None = None
        self.is_cancelled = False
        #: Its last frame was sent.
        self.is_over = False

    @property
    def is_wanted(self) -> bool:
        return not (self.is_over or self.is_cancelled)

    @property
    def is_open(self) -> bool:
        """Its function has not ended it yet."""
        return self.is_wanted and (self.stream is None or self.stream.last is None)


class Execution(Generic[Key]):
    """Calls that share one run of the function."""

    __slots__ = ("members", "key", "has_streams")

    def __init__(self, members: Sequence[Member], key: Key) -> None:
        self.members = members
        #: Identifies it for the loop or thread that runs it, which may have to stop it.
        self.key = key
        #: Its calls have begun to stream, so they cannot run again.
        self.has_streams = False

    @property
    def run_id(self) -> RunId:
        """Whose the lines are that it prints."""
        return self.run_of(self.members[0])

    def enter_trace(self) -> Callable[[], None]:
        """Makes the trace of its first call that has one the current one; returns what ends that."""
        traced = next((member.traced for member in self.members if member.traced), None)
        return attach(traced) if traced else do_nothing

    def run_of(self, member: Member) -> RunId:
        """The run of one of its calls, which is known as such to the function if it is the only one."""
        return of_several(member.given.run_id) if len(self.members) > 1 else member.run


class Batch(Generic[Key]):
    """The calls of one BATCH frame. `cancel` and `grant` may come from any thread.

    The lock decides between a call's cancel and its end. Each call has one last frame. For a cancelled call it is sent
    at once, except for the last one: that of the last one tells the service that the code has stopped.
    """

    def __init__(
        self,
        replica: Replica,
        first_id: int,
        payload: bytes,
        make_key: Callable[[Sequence[Member]], Key],
    ) -> None:
        now = monotonic()
        name, calls = frames.split_batch(payload)
        self.replica = replica
        self.name = name
        pop_trace = replica.traced.pop
        self.members = [
            Member(first_id + index, given, now, pop_trace(first_id + index, None)) for index, given in enumerate(calls)
        ]
        self.call_ids = range(first_id, first_id + len(calls))
        self.lock = Lock()
        #: Called under the lock when a call was cancelled or may send more.
        self.on_change: Callable[[], None] | None = None
        self._make_key = make_key
        self._entry = replica.app.entries.get(name)
        self._open = len(calls)
        self._running: Execution[Key] | None = None
        self._encode: Callable[[Any], bytes] | None = None
        #: What is still to be run; the next one comes last.
        self._groups: list[list[Member]] = []
        self._started = 0.0

    @property
    def entry(self) -> Entry:
        assert self._entry is not None
        return self._entry

    @property
    def encode(self) -> Callable[[Any], bytes]:
        assert self._encode is not None
        return self._encode

    @property
    def run_ms(self) -> float:
        return since(self._started)

    def begin(self, encode: Callable[[Any], bytes]) -> None:
        """From here on its calls cannot be withdrawn. Those whose arguments do not fit end."""
        self._encode = encode
        withdrawn = self.replica.begin_all(self.call_ids)
        fitting: list[Member] = []
        ended: list[tuple[Member, bytes]] = []
        for member in self.members:
            if member.call_id in withdrawn:
                with self.lock:
                    member.is_over = True
                    self._open -= 1
                continue
            fault = self._read(member)
            if fault:
                ended.append((member, frames.pack(frames.FAILED, member.call_id, fault)))
            else:
                fitting.append(member)
        self._groups.append(fitting)
        self.end(ended)
        self._started = perf_counter()

    def _read(self, member: Member) -> bytes:
        """Reads a call's arguments; returns the payload of a FAILED frame if they do not fit."""
        if self._entry is None or not self._entry.takes_lists:
            return b'{"kind":"no_function"}'
        member.arguments, fault = fit(self._entry, member.given.body)
        return fault

    def next(self) -> Execution[Key] | None:
        """What to run now, as far as a caller wants it; None if all is over."""
        with self.lock:
            while self._groups:
                members = [member for member in self._groups.pop() if member.is_wanted]
                if members:
                    self._running = Execution(members, self._make_key(members))
                    return self._running
            self._running = None
            left = [member for member in self.members if not member.is_over]
        self.end([(member, frames.pack(frames.CANCELLED, member.call_id)) for member in left])
        return None

    def lists(self, execution: Execution[Key]) -> dict[str, Any]:
        """The arguments of its calls, each parameter as a list."""
        entry, members = self.entry, execution.members
        lists: dict[str, Any] = {}
        for name in entry.accepted:
            default = entry.defaults.get(name)
            lists[name] = [member.arguments.get(name, default) for member in members]
        if entry.wants_run_id:
            lists["run_id"] = [member.given.run_id for member in members]
        return lists

    def returned(self, execution: Execution[Key], value: Any) -> None:
        """The function has returned: each call gets its item."""
        members = execution.members
        items = items_of(value)
        if items is None or len(items) != len(members):
            self.fail(members, self.misfit(value, len(members), "returned"))
            return
        run_ms = self.run_ms
        limit = self.replica.order.max_result_bytes
        ended: list[tuple[Member, bytes]] = []
        for member, item in zip(members, items):
            if member.is_over:
                continue
            try:
                if isinstance(item, BaseException):
                    raise item
                frame = result_frame(member.call_id, item, run_ms, self.encode, limit)
            except BaseException as error:  # noqa: BLE001 - or of the code that converts a value of the user's
                frame = self.raised_frame(member, error)
            ended.append((member, frame))
        self.end(ended)

    def misfit(self, value: Any, calls: int, verb: str) -> TypeError:
        """Says that a value is not a list with an item for each call."""
        what = "a " + type(value).__name__
        items = items_of(value)
        try:
            length = len(value) if items is None and hasattr(type(value), "__len__") else None
        except BaseException:  # noqa: BLE001 - of the value's own code, as of an array without dimensions
            length = None
        if items is not None:
            length = len(items)
        if length is not None:
            what += " of length %d" % length
        return TypeError(
            "%s() %s %s for a batch of %d: the result must be a list of length %d, with one item for each call"
            % (self.name, verb, what, calls, calls)
        )

    def raised(self, execution: Execution[Key], error: BaseException) -> None:
        """The function has raised: its calls end, or run again in halves, of which one may be without fault. If its
        code was stopped, no caller is left.
        """
        self.replica.outbox.end_fork()
        wanted = [member for member in execution.members if member.is_open]
        if len(execution.members) == 1 or execution.has_streams or not self.entry.splits:
            self.fail(wanted, error)
            return
        now = monotonic()
        # The service has given up the others.
        again = [member for member in wanted if now < member.until]
        self.fail([member for member in wanted if now >= member.until], error)
        for member in again:
            self._read(member)  # Anew: the function may have changed them.
        half = (len(again) + 1) // 2
        self._groups += [again[half:], again[:half]]

    def fail(self, members: Sequence[Member], error: BaseException) -> None:
        self.end([(member, self.raised_frame(member, error)) for member in members if member.is_open])

    def raised_frame(self, member: Member, error: BaseException) -> bytes:
        # Each run's log has the traceback.
        before = CURRENT_RUN.set(member.given.run_id)
        try:
            return raised_frame(member.call_id, error, self.run_ms)
        finally:
            CURRENT_RUN.reset(before)

    def end(self, ended: Sequence[tuple[Member, bytes]]) -> None:
        """Sends the last frames of calls; of a call whose reader lags, behind the chunks that wait for it."""
        last: list[bytes] = []
        with self.lock:
            for member, frame in ended:
                # A cancelled call has no reader for what waits.
                if member.is_over or (member.is_wanted and member.stream and member.stream.end(frame)):
                    continue
                member.is_over = True
                self._open -= 1
                last.append(frame)
        if last:
            self.replica.send(b"".join(last))

    def cancel(self, call_id: int) -> Execution[Key] | None:
        """Ends a call; returns the execution if no caller wants it any more, so that its code has to be stopped."""
        if call_id not in self.call_ids:
            return None
        member = self.members[call_id - self.call_ids.start]
        with self.lock:
            if not member.is_wanted:
                return None
            member.is_cancelled = True
            is_last = self._open == 1
            if not is_last:
                member.is_over = True
                self._open -= 1
            running = self._running
            if running and any(each.is_wanted for each in running.members):
                running = None
            if self.on_change:
                self.on_change()
        if not is_last:
            self.replica.send(frames.pack(frames.CANCELLED, call_id))
        return running

    def grant(self, call_id: int, count_bytes: int) -> None:
        """Lets a call's stream send that many more bytes."""
        if call_id not in self.call_ids:
            return
        member = self.members[call_id - self.call_ids.start]
        stream = member.stream
        if stream is None:
            return
        with self.lock:
            if member.is_over:
                return
            released = stream.grant(count_bytes)
            if stream.last is not None and not stream.held:
                released += stream.last
                member.is_over = True
                self._open -= 1
            # Under the lock, so that a cancel's frame comes behind it.
            if released:
                self.replica.outbox.waiting.append(released)
            if self.on_change:
                self.on_change()
        if released:
            self.replica.outbox.flush()


def items_of(value: Any) -> list[Any] | tuple[Any, ...] | None:
    """A copy of a list or tuple, made without the code of its class, which may mislead or raise; or None."""
    # Not by `isinstance`, which asks the value.
    kind = type(value)
    if issubclass(kind, list):
        return list.__getitem__(value, slice(None))
    return tuple.__getitem__(value, slice(None)) if issubclass(kind, tuple) else None
