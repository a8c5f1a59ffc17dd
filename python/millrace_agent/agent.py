"""The life of a seat: find a service, fetch the app, start the harness, relay its connections, end."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from importlib.machinery import EXTENSION_SUFFIXES

from millrace_worker import keeper

from . import looks
from .app import Files, start_app
from .build import Build, Home
from .channel import trust
from .child import Child, EarlyLines
from .files import Blobs, bring, describe, why_not
from .handover import Pipe
from .held import Held
from .line import Addresses, Line
from .listening import OwnServer
from .loop import Loop
from .order import HEX, SeatOrder, Session, matching, read_address, read_addresses
from .relay import Relays

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def own_tag() -> str:
    """Such as `3.11 cpython-311-x86_64-linux-gnu glibc 2.36`."""
    # The same as from `sysconfig` and `platform`, which take longer to import than the agent itself.
    _, *words = (EXTENSION_SUFFIXES or [""])[0].split(".")
    abi = words[0] if len(words) == 2 and words[0] != "abi3" else sys.implementation.cache_tag
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, OSError, ValueError):
        libc = ""
    if not libc:
        import platform

        libc = " ".join(platform.libc_ver())
    return " ".join(["%d.%d" % sys.version_info[:2], str(abi), libc])


_HEARTBEAT_SECONDS = 2.0
_SILENCE_SECONDS = 6.0
#: Between two attempts to reach a service.
_PAUSE_SECONDS = 0.5
#: How long a keeper has to end all processes below it.
_KEEPER_SECONDS = 5.0
#: How long the service may take to read the last message.
_LAST_WORD_SECONDS = 2.0
_MESSAGE_CHARS = 2_000

#: Exit codes. A seat that lost its service for good is done too: it cleans up, and its pod counts as succeeded.
_DONE = 0
#: The seat was fenced, or never reached a service.
_LOST = 3


class Agent:
    """One seat. Everything except fetching happens in one thread."""

    def __init__(self, order: SeatOrder, folder: str) -> None:
        self._order = order
        self._folder = folder
        self._loop = Loop()
        self._context = trust(order.authority)
        self._relays = Relays(self._loop, self._context, os.path.join(folder, "h"))
        self._began_at = time.monotonic()
        self._addresses = Addresses(order.addresses, self._loop.wake)
        self._line: Line | None = None
        self._session: Session | None = None
        self._grace_seconds = order.grace_seconds
        self._is_seated = False
        self._heard_at = self._said_at = self._began_at
        #: Since when there is no service; None while there is one.
        self._alone_since: float | None = self._began_at
        self._retry_at = 0.0
        #: What every service of this seat must know, in the order of events.
        self._milestones: list[tuple[str, Any]] = []
        self._fetched: Files | Exception | None = None
        self._child: Child | None = None
        self._build: Build | None = None
        self._server: OwnServer | None = None
        self._held = Held(self._loop.wake)
        self._killed_at: float | None = None
        #: The app's exit code; None while it runs.
        self._swept: int | None = None
        self._over_at: float | None = None
        self._code = _DONE

    def run(self) -> int:
        """Runs until the seat is over; returns the exit code."""
        self._loop.catch(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
        self._loop.run(self._tick)
        self._relays.close()
        return self._code

    def _tick(self, now: float) -> None:
        self._reap()
        if self._loop.signals & {signal.SIGTERM, signal.SIGINT}:
            self._loop.signals.clear()
            self._make_room()
        if self._over_at is not None:
            self._finish(now)
            return
        if self._fetched is not None:
            self._start()
        if self._build is not None:
            self._build.tick()
        self._held.look()
        if self._held.full:
            self._end()
        self._settle()
        if self._child is not None:
            self._child.work()
        if self._swept is not None:
            self._sweep(self._swept)
        elif self._killed_at is not None and now - self._killed_at > _KEEPER_SECONDS:
            self._swept = 128 + signal.SIGKILL
        self._keep_in_touch(now)

    def _keep_in_touch(self, now: float) -> None:
        if self._alone_since is not None and now - self._alone_since > self._grace_seconds:
            self._give_up()
        elif self._line is None and (now >= self._retry_at or self._addresses.is_found):
            self._call(now)
        elif self._line is not None and now - self._heard_at > _SILENCE_SECONDS:
            self._line.close()
            self._lose()
        elif self._is_seated and now - self._said_at >= _HEARTBEAT_SECONDS:
            self._say("beat", {})

    def _call(self, now: float) -> None:
        numeric = self._addresses.take()
        self._heard_at = now
        self._retry_at = now + _PAUSE_SECONDS
        if numeric is None:
            return
        session = self._session
        preface = "millrace 1 seat %s" % self._order.ticket
        if session is not None:
            preface = "millrace 1 back %s %s %d" % (self._order.seat_id, session.secret, session.fence)
        try:
            self._line = Line(
                self._loop,
                self._context,
                numeric,
                preface,
                lambda word, value: self._hear(word, value, numeric),
                self._lose,
            )
        except OSError:
            self._line = None

    def _lose(self) -> None:
        """Handles a lost connection. Relays stay open: the loss may be transient."""
        was_heard = self._is_seated and self._over_at is not None
        self._line = None
        self._is_seated = False
        if self._alone_since is None:
            self._alone_since = time.monotonic()
            self._retry_at = 0.0
        if was_heard:
            self._loop.stop()

    def _hear(self, word: str, value: Any, address: tuple[str, int]) -> None:
        self._heard_at = time.monotonic()
        try:
            if word == "session":
                self._take_seat(Session(value), address)
            elif word == "fenced":
                self._fence("a service said that it has been replaced")
            elif word == "elsewhere":
                self._addresses.prefer(read_address(value["address"]))
                self._retry_at = 0.0
            elif word == "look":
                # 0 asks about the process below the keeper.
                pid = int(value["pid"]) or (self._child.kept() if self._child is not None else 0)
                self._say("seen", {"id": int(value["id"]), "out_of_memory": self._held.deaths, **looks.look_at(pid)})
            elif word == "where" and self._server is not None and self._child is not None:
                place = self._server.place(self._child.top)
                self._say("at", {"id": int(value["id"]), "pid": self._child.kept(), **place})
            elif word == "dial" and self._server is not None and self._child is not None:
                ticket = matching(HEX, value["ticket"])
                local = self._server.dial(self._child.top)
                if local is not None:
                    self._relays.join(local, "wire", ticket)
            elif word == "services":
                self._addresses.learn(read_addresses(value["addresses"]))
            elif word == "ask" and self._child is not None and self._swept is None:
                self._child.ask()
            elif word == "end":
                self._end()
            elif word == "beat" and self._is_seated:
                self._relays.hear_beat()
            elif self._build is not None:
                self._build.hear(word, value)
        except (KeyError, TypeError, ValueError, AttributeError):
            self._fence("a service said what was not understood")

    def _take_seat(self, session: Session, address: tuple[str, int]) -> None:
        before, self._session = self._session, session
        if before is not None and session.fence < before.fence:
            raise ValueError("it is another's by now")
        self._grace_seconds = session.grace_seconds
        self._addresses.learn(session.addresses)
        self._is_seated = True
        self._alone_since = None
        self._relays.address = address
        self._say("hello", {"python": "%d.%d.%d" % sys.version_info[:3], "tag": own_tag()})
        is_another = before is not None and session.fence > before.fence
        if is_another and not self._may_go_on():
            self._relays.close()
            self._fail("its seat cannot be taken over")
            return
        for word, value in self._milestones:
            self._say(word, value)
        if before is None:
            self._relays.template_ticket = session.assignment.order.get("template_ticket")
            threading.Thread(target=self._fetch, args=(session, address), daemon=True).start()
        elif is_another:
            self._held.forget()
            self._relays.take_over()
        else:
            self._relays.come_back()

    def _say(self, word: str, value: Any) -> None:
        if self._line is not None and self._is_seated:
            self._said_at = time.monotonic()
            self._line.say(word, value)

    def _service(self) -> Line | None:
        return self._line if self._is_seated else None

    def _pass(self, word: str, value: Any) -> None:
        """Sends what every service of this seat must know, now or when there is one again."""
        self._milestones.append((word, value))
        self._say(word, value)

    def _since_begin(self) -> dict[str, int]:
        return {"ms": round((time.monotonic() - self._began_at) * 1000)}

    def _may_go_on(self) -> bool:
        """Whether another service can take the seat over. If the app has ended, that service learns how."""
        if self._over_at is not None or self._swept is not None:
            return True
        is_staying = self._killed_at is None and ("leaving", {}) not in self._milestones
        return self._child is not None and is_staying and self._relays.may_go_on

    def _settle(self) -> None:
        # If the app has ended, its end is all that the service hears.
        if not self._relays.is_taken_over or not self._is_seated or self._session is None or self._swept is not None:
            return
        task = self._session.assignment
        if not self._may_go_on():
            self._fence("what is in it cannot go on for another service")
        elif self._relays.settle(task.server.ticket if task.server else str(task.order["template_ticket"])):
            self._say("adopted", {})

    def _fetch(self, session: Session, address: tuple[str, int]) -> None:
        try:
            blobs = Blobs(self._context, address, self._order.seat_id, session.secret)
            self._fetched = bring(blobs, self._order, session.assignment, self._folder)
        except Exception as error:  # noqa: BLE001 - whatever it is, the service is told
            self._fetched = error
        self._loop.wake()

    def _start(self) -> None:
        fetched, self._fetched = self._fetched, None
        if self._session is None or fetched is None or self._killed_at is not None:
            return
        if isinstance(fetched, Exception):
            self._fail(why_not(fetched))
            return
        task = self._session.assignment
        if task.is_build:
            proof = (self._order.seat_id, self._session.secret)
            home = Home(self._context, self._relays, proof, self._service, self._say, self._pass)
            self._build = Build(self._loop, self._folder, home)
            return
        self._pass("fetched", self._since_begin())
        self._held.forget()
        looks.forget_reaped()
        try:
            child, written = start_app(self._loop, task, fetched, self._relays.path)
        except (OSError, ValueError, TypeError) as error:
            self._fail("its process could not be started: %s" % describe(error))
            return
        self._child = child
        if task.max_memory is not None:
            self._held.watch_memory(task.max_memory, child.top, self._relays.forks)
        for name, path in written.items():
            most = task.max_folders.get(name)
            if most is not None:
                self._held.watch_folder(name, path, most, written.get("storage"))
        self._server = None if task.server is None else OwnServer(task.server.port, task.server.authored)
        self._pass("started", {**self._since_begin(), "walls": fetched.around and fetched.around.told()})
        for stream, descriptor in (("stdout", child.stdout), ("stderr", child.stderr)):
            if task.server is None:
                EarlyLines(self._loop, descriptor, stream, self._say)
            else:
                pipe = self._relays.kept[stream] = Pipe(self._loop, descriptor)
                self._relays.join(pipe, stream, task.server.ticket)

    def _reap(self) -> None:
        """Reaps children, which include every process whose parent has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._build is not None:
                self._build.reap(pid, status)
            if self._child is not None and self._swept is None and self._over_at is None:
                status = self._child.status_of_end(pid, status)
                self._swept = None if status is None else keeper.exit_code(status)

    def _sweep(self, code: int) -> None:
        """Ends what the app has left, in steps: freeing much memory takes long, and heartbeats must continue."""
        if keeper.is_swept():
            self._leave(("exited", {"code": code, **self._held.told()}))
        else:
            self._loop.hurry(keeper.PAUSE_SECONDS)

    def _make_room(self) -> None:
        """Announces that this place is about to end: the service starts other seats, then ends this one."""
        if self._child is not None and (self._is_seated or ("leaving", {}) not in self._milestones):
            self._pass("leaving", {})
        else:
            self._end()

    def _end(self) -> None:
        if self._over_at is not None or self._killed_at is not None:
            return
        self._killed_at = time.monotonic()
        if self._child is None:
            self._leave(("exited", {"code": 128 + signal.SIGTERM, "is_out_of_memory": False}))
        elif self._swept is None:
            self._child.end()

    def _fail(self, message: str) -> None:
        self._leave(("failed", {"message": message[:_MESSAGE_CHARS]}))

    def _leave(self, milestone: tuple[str, Any]) -> None:
        """Says how the seat ended, and leaves once a service has heard it, or its grace is over."""
        self._over_at = time.monotonic()
        self._pass(*milestone)

    def _finish(self, now: float) -> None:
        if self._line is not None and self._is_seated:
            # The service closes the line when it has read that.
            if self._over_at is not None and now - max(self._over_at, self._said_at) > _LAST_WORD_SECONDS:
                self._loop.stop()
        elif self._line is None and self._killed_at is not None:
            self._loop.stop()  # The service that ended it has gone.
        else:
            self._keep_in_touch(now)

    def _give_up(self) -> None:
        """Ends the seat after its grace. One that never had a service says what to check."""
        if self._session is not None:
            self._fence("no service was found for %d s" % self._grace_seconds, _DONE)
            return
        tried = ", ".join("%s:%d" % address for address in self._order.addresses)
        why = "no service answered at %s for %d s; check that MILLRACE_SEAT_URL can be reached from this machine"
        self._fence(why % (tried, self._grace_seconds))

    def _fence(self, why: str, code: int = _LOST) -> None:
        """Ends the connections first, then the seat: from now on nothing here counts."""
        self._relays.close()
        if self._line is not None:
            self._line.close()
        try:
            os.write(2, ("millrace: the seat ends: %s\n" % why).encode())
        except OSError:
            pass  # Nothing reads it.
        self._code = code
        self._loop.stop()
