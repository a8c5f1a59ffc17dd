"""The app of a seat: which walls its machine gives, and how the harness or the app's own server starts behind them.

The walls are those of a service's own machine, and are raised in the same way (see `ward.py`).
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket

from millrace_walls import walls
from millrace_walls.places import is_within
from millrace_walls.plan import parse
from millrace_worker import keeper

from .child import PYTHON, PYTHON_DIR, Child, environment_of, name_python
from .door import Door
from .loop import IN, Loop
from .order import Assignment
from .ward import DESCRIPTOR, LIFELINE, TOLD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from millrace_walls.connects import Connects

    from .order import Walls

_PATH = "import sys; sys.path.insert(0, %s); " % json.dumps(PYTHON_DIR)
_PROBE = _PATH + "from millrace_walls.probe import main_in_seat; main_in_seat()"
_WARD = _PATH + "from millrace_agent.ward import main; main()"

_LEVELS = ("process", "landlock", "userns")
#: What a shell finds there are programs.
_PROGRAMS = ("bin", "sbin")
_ANSWER_BYTES = 64 * 1024
_MAX_CHARS = 500
#: The kernel takes no longer argument or variable, with its end.
_MAX_STRING_BYTES = 128 * 1024


class NoWalls(Exception):
    """This machine does not give what is asked for."""


class Around:
    def __init__(self, level: str | None, network: list[tuple[str, str]], gap: str | None) -> None:
        #: None for nothing.
        self.level = level
        #: What the plan says of the app's network.
        self.network = network
        #: Why connections are not judged; None where they are.
        self.gap = gap

    def told(self) -> dict[str, str | None]:
        return {"level": self.level or "none", "gap": self.gap and self.gap[:_MAX_CHARS]}


class Files:
    def __init__(self, bundle: str, python: str, environment: str | None) -> None:
        #: The seat's own, which holds them all.
        self.folder = os.path.dirname(bundle)
        self.bundle = bundle
        #: The app's interpreter.
        self.python = python
        #: Its packages; None when there are none.
        self.environment = environment
        #: What the app will live behind; None where nothing was asked for.
        self.around: Around | None = None


class Probing:
    """Tries the walls of this machine while something else is done; there is no app yet."""

    def __init__(self, folder: str) -> None:
        own = os.path.join(folder, "probe")
        os.mkdir(own, 0o700)
        host = {"data_dir": folder, "harness": PYTHON_DIR, "reads": host_reads(folder), "user": "0"}
        asked = json.dumps({"folder": own, **host}).encode() + b"\n"
        self._child = Child([PYTHON, "-I", "-S", "-c", _PROBE], asked, {})

    def found(self, asked: Walls, neighbours: str | None) -> Around:
        """What the app will live behind. Raises NoWalls where that is less than what is asked for."""
        with open(self._child.stdout, "rb") as stdout, open(self._child.stderr, "rb") as stderr:
            said, complaint = stdout.read(_ANSWER_BYTES), stderr.read(_ANSWER_BYTES)
        try:
            offer = json.loads(said)
        except ValueError:
            why = complaint.decode("utf-8", "replace").strip().split("\n")[-1] or "Python gave no answer"
            offer = {"level": None, "reasons": dict.fromkeys(_LEVELS, why), "gap": why}
        return choose(asked, offer, neighbours)


def choose(asked: Walls, offer: dict[str, Any], neighbours: str | None) -> Around:
    """Of what a machine offers, the strongest. Raises NoWalls where that is less than what is asked for."""
    level, gap = offer["level"], offer["gap"]
    least = asked.isolation
    if least != "auto" and (level is None or _LEVELS.index(level) < _LEVELS.index(least)):
        raise NoWalls("MILLRACE_ISOLATION=%s, but its machine cannot give that: %s" % (least, offer["reasons"][least]))
    if gap is not None and asked.must_judge:
        raise NoWalls("nothing keeps it from connecting to others on its machine: %s" % gap)
    network = asked.network if gap is None else [pair for pair in asked.network if pair[0] == "network"]
    denied = [("neighbours", neighbours)] if gap is None and neighbours is not None else []
    return Around(level, network + denied, gap)


class Walled(Child):
    """An app behind walls. This agent stays outside: it hands out the app's connections, and answers the system calls
    that the kernel stops for it.
    """

    def __init__(self, loop: Loop, fields: list[tuple[str, str]], home: str) -> None:
        """`fields` are those of its plan; replicas that ask for connections get them to the socket at `home`."""
        packed = b"".join(_packed(*each) for each in (*fields, ("end", "")))
        self._plan = parse(packed)
        self._loop = loop
        self._connects: Connects | None = None
        outer, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # By which the ward tells who it is, and hands over the descriptor on which the kernel asks.
        self._heard, told = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The ward sees by the end of this pipe that the agent has ended.
        lifeline, self._held = os.pipe()
        with inner, told:
            more = {DESCRIPTOR: inner.fileno(), TOLD: told.fileno(), LIFELINE: lifeline}
            super().__init__([PYTHON, "-I", "-S", "-c", _WARD], packed, {}, _apart(more))
        os.close(lifeline)
        self._starter = self.pid
        self._door: Door | None = Door(outer, home)
        loop.watch(outer.fileno(), IN, self._answer)
        loop.watch(self._heard.fileno(), IN, self._hear)

    def work(self) -> None:
        pause = self._door.pause_seconds() if self._door else 0
        if pause > 0:
            self._loop.hurry(pause)
        elif self._door and self._is_throttled:
            self._is_throttled = False
            self._loop.watch(self._door.fileno(), IN, self._answer)
        if self._connects is not None:
            self._judge(0)

    def status_of_end(self, pid: int, status: int) -> int | None:
        if pid == self._starter and self.pid == pid and self._plan.has_namespaces:
            # It ends as soon as it has said which process it has started.
            self._hear(IN)
        return super().status_of_end(pid, status)

    def end(self) -> None:
        # In a namespace of its own everything ends with it; elsewhere the rest becomes this process's, and is swept.
        keeper.tell(self.pid, signal.SIGKILL)

    @property
    def top(self) -> int:
        return os.getpid()

    def kept(self) -> int:
        return super().kept() if self._plan.has_namespaces else self.pid

    _is_throttled = False

    def _answer(self, _events: int) -> None:
        if self._door is None:
            return
        if self._door.pause_seconds() > 0:
            self._is_throttled = True
            self._loop.forget(self._door.fileno())
            self._loop.wake()
        elif not self._door.answer():
            self._loop.forget(self._door.fileno())
            self._door = None

    def _hear(self, _events: int) -> None:
        """The process that becomes the app, then that its walls stand."""
        try:
            text, descriptors, _, _ = socket.recv_fds(self._heard, 64, 1, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        if text.isdigit():
            self.pid = int(text)
            return
        self._loop.forget(self._heard.fileno())
        if not descriptors:
            return
        log = None
        if self._plan.own_port:
            from millrace_walls.server_port import AppLog

            log = AppLog(self.stderr)
        try:
            self._connects = walls.answers(self._plan, descriptors[0], 0, log)
        except OSError:
            self.end()  # Its calls would wait for ever.
            return
        self._loop.watch(self._connects.fileno(), IN, self._judge)

    def _judge(self, _events: int) -> None:
        if self._connects is None:
            return
        if not self._connects.work():
            self._loop.forget(self._connects.fileno())
            self._connects = None
            return
        pause = self._connects.pause_seconds()
        if pause is not None:
            self._loop.hurry(pause)


def _apart(descriptors: dict[int, int]) -> dict[int, int]:
    """None may be at a number that another is to get."""
    if min(descriptors.values()) <= max(descriptors):
        raise OSError(errno.EBADF, "the agent has lost its own descriptors")
    return descriptors


def host_reads(folder: str, host: Mapping[str, str] = os.environ) -> list[str]:
    """What of the machine's files its variables promise to every program; not its user's home, nor a seat."""
    named = [each for each in host.get("PATH", "").split(os.pathsep) if os.path.basename(each) in _PROGRAMS]
    for name in ("LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        named += host.get(name, "").split(os.pathsep)
    private = [os.path.realpath(each) for each in (host.get("HOME", "/"), folder)]
    real = [os.path.realpath(each) for each in dict.fromkeys(named) if os.path.isabs(each)]
    return [each for each in real if not any(is_within(path, each) for path in private)]


def _packed(name: str, value: str) -> bytes:
    """As the keeper reads it. A zero byte would be the start of another field, of the app's choosing."""
    field = os.fsencode("%s=%s" % (name, value))
    if b"\0" in field:
        raise ValueError("a zero byte cannot be passed to a process")
    if len(os.fsencode(value)) >= _MAX_STRING_BYTES:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    return field + b"\0"


_HARNESS = "import sys; sys.path[:1] = [%s]; from millrace_worker.start import main; main()" % json.dumps(PYTHON_DIR)
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from millrace_agent.ward import run; run()"
#: What the harness is told in place of an address: it asks the agent for its connections.
_DOOR = "door"


def start_app(loop: Loop, task: Assignment, files: Files, home: str) -> tuple[Child, dict[str, str]]:
    """Starts it, behind walls if there are some. The harness calls home at that socket; a server does not.

    Gives the folders that it writes to, too, by what they are for it.
    """
    around = files.around
    is_walled = around is not None and around.level is not None
    storage = _storage(task.storage, files.folder)
    scratch = os.path.join(files.folder, "scratch")
    if is_walled:
        os.mkdir(scratch, 0o700)
    variables = environment_of(task.variables, storage, files.environment, scratch if is_walled else None)
    reads: list[str] = []
    if files.environment is None:
        reads = [name_python(files.folder)]
        found = variables.get("PATH", os.defpath)
        variables["PATH"] = os.pathsep.join([*reads, os.path.dirname(files.python), found])
    order = str(os.getpid())
    command = [files.python, "-c", _HARNESS]
    if task.server is not None:
        variables["PORT"] = str(task.server.port)
        program, *rest = task.server.command
        # The place may have it under another name, and the app's own version matters.
        command = [files.python if program in ("python", "python3") else program, *rest]
    else:
        # In a namespace of its own the first process is a keeper; elsewhere behind walls the agent is.
        is_kept = is_walled and around is not None and around.level != "userns"
        own = {"address": _DOOR if is_walled else home, "bundle_dir": files.bundle, "kept": is_kept}
        order = json.dumps({**task.order, **own})
    if around is None or around.level is None:
        arguments = command if task.server is None else program_arguments(files.bundle, command)
        return Child(arguments, order.encode() + b"\n", variables), {"storage": storage}
    written = {"storage": storage, "scratch": scratch}
    fields = [
        ("level", around.level),
        ("program", command[0]),
        ("harness", PYTHON_DIR),
        ("data_dir", files.folder),
        ("bundle", files.bundle),
        *written.items(),
        *around.network,
        *(("read", each) for each in (*host_reads(files.folder), *reads)),
        *(("argument", each) for each in command[1:]),
        *(("variable", "%s=%s" % pair) for pair in variables.items()),
    ]
    if files.environment is not None:
        fields.append(("environment", files.environment))
    if task.server is None:
        fields += [("home", home), ("order", order)]
    else:
        fields += [("port", str(task.server.port)), ("authored", str(task.server.authored))]
    if task.max_memory is not None:
        fields.append(("memory_bytes", str(task.max_memory)))
    return Walled(loop, fields, home), written


def program_arguments(folder: str, program: list[str]) -> list[str]:
    """How a program is run in a folder, without walls: below a keeper, which gets our pid on stdin."""
    return [PYTHON, "-I", "-S", "-c", _PROGRAM, PYTHON_DIR, folder, *program]


def _storage(wanted: str, folder: str) -> str:
    """Where the project's storage is in this place; if it has none, a folder that is gone with the seat."""
    shared = os.path.dirname(wanted)
    # A folder of each project, in one that every machine of this place has.
    if shared != "/" and os.path.isdir(shared) and os.access(shared, os.W_OK):
        os.makedirs(wanted, 0o700, exist_ok=True)
    if os.path.isdir(wanted) and os.access(wanted, os.W_OK):
        return wanted
    own = os.path.join(folder, "storage")
    os.makedirs(own, exist_ok=True)
    return own
