"""A seat that builds an environment: the agent carries out the service's orders, one after the other.

It starts programs, sends their output, fetches an environment, and packs and sends folders.
"""

from __future__ import annotations

import os
import re
import signal
import ssl
import threading
from collections import deque

from millrace_worker import keeper

from . import looks
from .app import program_arguments
from .child import ALLOWED, PYTHON, Child, Lines, name_python
from .files import READY, Blobs, NotFetched, connect, describe
from .line import Line
from .loop import Loop
from .order import HASH, HEX, matching
from .pack import Unpackable, pack
from .relay import Relays
from .unpack import BadArchive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_ORDERS = ("run", "give", "bring")
#: Sent of one stream of a program, with a cost for each line: a build's log holds no more. After that only the last
#: lines are sent, which tell why it failed.
_STREAM_BYTES = 4 * 1024 * 1024
_LINE_COST_BYTES = 64
_LAST_LINES = 50
_PROBLEM_CHARS = 2_000
#: The name of a file that comes with an order.
_FILE_NAME = re.compile(r"[a-z]{1,32}\.txt\Z")


class Home:
    """A build's way to the service."""

    def __init__(
        self,
        context: ssl.SSLContext,
        relays: Relays,
        proof: tuple[str, str],
        line: Callable[[], Line | None],
        say: Callable[[str, Any], None],
        tell: Callable[[str, Any], None],
    ) -> None:
        self._context = context
        self._relays = relays
        self._proof = proof
        self._line = line
        self.say = say
        #: Sends what every service of this seat must know, now or when there is one again.
        self.tell = tell

    @property
    def is_full(self) -> bool:
        """Whether there is no service, or it reads more slowly than this seat sends."""
        line = self._line()
        return line is None or not line.is_drained

    def connect(self, ticket: str) -> ssl.SSLSocket:
        """Opens a connection to the service that shows a ticket."""
        return connect(self._context, self._where(), "millrace 1 wire %s" % ticket)

    def bring(self, blob: str, to: str) -> None:
        """Fetches an environment by its hash, and adapts it to this machine."""
        try:
            Blobs(self._context, self._where(), *self._proof).bring_environment(blob, to)
        except (NotFetched, BadArchive, OSError) as error:
            message = "the environment could not be fetched from the service: %s; deploy again"
            raise NotFetched(message % describe(error)) from None

    def _where(self) -> tuple[str, int]:
        address = self._relays.address
        if address is None:
            raise NotFetched("there is no service")
        return address


class Build:
    """One build. Only what takes long happens outside the agent's thread."""

    def __init__(self, loop: Loop, folder: str, home: Home) -> None:
        self._loop = loop
        self._folder = folder
        self._home = home
        self._last_id = 0
        self._step: _Step | None = None
        self._is_busy = False
        #: The order that a thread has finished, and what went wrong.
        self._done: tuple[int, str | None] | None = None
        name_python(folder)
        for name in ("aside", "home"):
            os.mkdir(os.path.join(folder, name), 0o755)
        home.tell("ready", {"folder": folder, "python": PYTHON})

    def hear(self, word: str, value: Any) -> None:
        """Takes an order; raises ValueError, KeyError or TypeError for an invalid one."""
        if word not in _ORDERS:
            return
        order_id = int(value["id"])
        if order_id <= self._last_id:
            return  # The service repeats it on every connection, until it is done.
        if self._is_busy:
            raise ValueError("one after the other")
        self._last_id = order_id
        self._is_busy = True
        if word == "run":
            self._run(order_id, value)
        elif word == "bring":
            blob = matching(HASH, value["blob"])
            environment = os.path.join(self._folder, "environment")
            self._aside(order_id, lambda: self._home.bring(blob, environment))
        else:
            what = str(value["what"])
            marker = {"bundle": None, "environment": READY}[what]
            ticket = matching(HEX, value["ticket"])
            self._aside(order_id, lambda: self._give(what, marker, ticket))

    def tick(self) -> None:
        if self._step is not None:
            self._step.tick()
        if self._done is not None:
            (order_id, problem), self._done = self._done, None
            self._finish(order_id, problem=problem)

    def reap(self, pid: int, status: int) -> None:
        if self._step is not None and self._step.child.pid == pid:
            keeper.sweep()
            self._step.reap(status)

    def _run(self, order_id: int, value: Any) -> None:
        variables = self._variables(value["env"])
        for name, text in value["files"].items():
            if not _FILE_NAME.match(name):
                raise ValueError("not a name for a file")
            with open(os.path.join(self._folder, "aside", name), "w", encoding="utf-8") as file:
                file.write(text)
        bundle = os.path.join(self._folder, "bundle")
        program = [str(value["program"]), *(str(word) for word in value["args"])]
        try:
            child = Child(program_arguments(bundle, program), b"%d\n" % os.getpid(), variables)
        except (OSError, ValueError) as error:
            self._finish(order_id, problem="a program could not be started: %s" % describe(error))
            return
        self._step = _Step(self._loop, child, self._home, lambda code, is_out: self._finish(order_id, code, is_out))

    def _variables(self, given: dict[str, str]) -> dict[str, str]:
        found = {"LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
        found.update({name: os.environ[name] for name in ALLOWED if name in os.environ})
        own_path = found.get("PATH", os.defpath)
        found["HOME"] = os.path.join(self._folder, "home")
        found.update({str(name): str(value) for name, value in given.items()})
        # The service's folders come first, then this machine's.
        found["PATH"] = given["PATH"] + os.pathsep + own_path if "PATH" in given else own_path
        return found

    def _give(self, what: str, marker: str | None, ticket: str) -> None:
        try:
            with self._home.connect(ticket) as home:
                pack(os.path.join(self._folder, what), home.sendall, marker)
                try:
                    # Waits until the service has read it all: closing with something unread may lose what was sent.
                    home.unwrap()
                except OSError:
                    pass  # The hash at the end tells the service whether it got all.
        except Unpackable as error:
            raise Unpackable("the %s could not be taken from where it was built: %s" % (what, error)) from None
        except OSError as error:
            message = "the %s could not be sent to the service: %s; deploy again"
            raise NotFetched(message % (what, describe(error))) from None

    def _aside(self, order_id: int, work: Callable[[], object]) -> None:
        """Works in another thread: heartbeats must continue."""

        def act() -> None:
            problem = None
            try:
                work()
            except Exception as error:  # noqa: BLE001 - whatever it is, the service is told
                problem = describe(error)
            self._done = (order_id, problem)
            self._loop.wake()

        threading.Thread(target=act, daemon=True).start()

    def _finish(self, order_id: int, code: int = 0, is_out_of_memory: bool = False, problem: str | None = None) -> None:
        self._is_busy = False
        self._step = None
        problem = problem and problem[:_PROBLEM_CHARS]
        done = {"id": order_id, "code": code, "is_out_of_memory": is_out_of_memory, "problem": problem}
        self._home.tell("done", done)


class _Step:
    """One program. It is over when its process has ended and all its output is sent."""

    def __init__(self, loop: Loop, child: Child, home: Home, on_end: Callable[[int, bool], None]) -> None:
        self.child = child
        self._on_end = on_end
        self._memory_deaths = looks.times_out_of_memory()
        self._code: int | None = None
        self._lines = [
            _StepLines(loop, descriptor, home, stream, self._look)
            for stream, descriptor in (("stdout", child.stdout), ("stderr", child.stderr))
        ]

    def tick(self) -> None:
        for lines in self._lines:
            lines.resume()

    def reap(self, status: int) -> None:
        self._code = keeper.exit_code(status)
        self._look()

    def _look(self) -> None:
        if self._code is not None and all(lines.is_over for lines in self._lines):
            is_killed = self._code == 128 + signal.SIGKILL
            self._on_end(self._code, is_killed and looks.times_out_of_memory() > self._memory_deaths)


class _StepLines(Lines):
    """Sends the first lines, and the last. Pauses while the service is slower, or gone."""

    def __init__(self, loop: Loop, descriptor: int, home: Home, stream: str, on_over: Callable[[], None]) -> None:
        self.is_over = False
        self._home = home
        self._on_over = on_over
        self._left_bytes = _STREAM_BYTES
        self._last: deque[bytes] = deque(maxlen=_LAST_LINES)
        self._is_held = False
        super().__init__(loop, descriptor, stream, home.say)

    def resume(self) -> None:
        if self._is_held and not self._home.is_full:
            self._is_held = False
            self._watch()

    def _read(self, events: int) -> None:
        if self._home.is_full:
            self._is_held = True
            self._loop.forget(self._descriptor)
        else:
            super()._read(events)

    def _take(self, line: bytes) -> None:
        self._left_bytes -= len(line) + _LINE_COST_BYTES
        if self._left_bytes > 0:
            self._tell(line)
        else:
            self._last.append(line)

    def _after(self, is_over: bool) -> None:
        if is_over:
            for line in self._last:
                self._tell(line)
            self.is_over = True
            self._on_over()
