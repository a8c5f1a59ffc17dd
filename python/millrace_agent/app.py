"""The app of a seat: which walls its machine supports, and how the harness or the app's server starts behind them."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket

from millrace_walls import walls
from millrace_walls.places import is_within
from millrace_walls.plan import parse
from millrace_worker import frames, keeper

from .child import PYTHON, PYTHON_DIR, Child, environment_of, name_python
from .door import Door
from .loop import IN, Loop
from .order import Assignment
from .ward import DESCRIPTOR, LIFELINE, TOLD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from millrace_walls.connects import Connects

    from .order import Walls

_PATH = "import sys; sys.path.insert(0, %s); " % json.dumps(PYTHON_DIR)
_PROBE = _PATH + "from millrace_walls.probe import main_in_seat; main_in_seat()"
_WARD = _PATH + "from millrace_agent.ward import main; main()"

_LEVELS = ("process", "landlock", "userns")
#: Folders on PATH that apps may read: they hold programs.
_PROGRAMS = ("bin", "sbin")
_ANSWER_BYTES = 64 * 1024
_MAX_CHARS = 500
#: The longest argument or variable that the kernel accepts, with its zero byte.
_MAX_STRING_BYTES = 128 * 1024


class NoWalls(Exception):
    """This machine does not support the requested walls."""


class Around:
    def __init__(self, level: str | None, network: list[tuple[str, str]], gap: str | None) -> None:
        #: None for no walls.
        self.level = level
        #: The plan's fields about the app's network.
        self.network = network
        #: Why connections are not judged; None where they are.
        self.gap = gap

    def told(self) -> dict[str, str | None]:
        return {"level": self.level or "none", "gap": self.gap and self.gap[:_MAX_CHARS]}


class Files:
    def __init__(self, bundle: str, python: str, environment: str | None) -> None:
        self.folder = os.path.dirname(bundle)
        self.bundle = bundle
        #: The app's interpreter.
        self.python = python
        #: The folder of its packages, if it has any.
        self.environment = environment
        #: The walls for the app; None if none were requested.
        self.around: Around | None = None


def begin_probe(folder: str) -> Child:
    """Starts a process that tries the walls of this machine; read its answer with `probed`."""
    own = os.path.join(folder, "probe")
    os.mkdir(own, 0o700)
    host = {"data_dir": folder, "harness": PYTHON_DIR, "reads": host_reads(folder), "user": "0"}
    asked = json.dumps({"folder": own, **host}).encode() + b"\n"
    return Child([PYTHON, "-I", "-S", "-c", _PROBE], asked, {})


def probed(probe: Child, asked: Walls, neighbours: str | None) -> Around:
    """The walls for the app. Raises NoWalls where the machine supports less than requested."""
    with open(probe.stdout, "rb") as stdout, open(probe.stderr, "rb") as stderr:
        said, complaint = stdout.read(_ANSWER_BYTES), stderr.read(_ANSWER_BYTES)
    try:
        offer = json.loads(said)
    except ValueError:
        why = complaint.decode("utf-8", "replace").strip().split("\n")[-1] or "Python gave no answer"
        offer = {"level": None, "reasons": dict.fromkeys(_LEVELS, why), "gap": why}
    return choose(asked, offer, neighbours)


def choose(asked: Walls, offer: dict[str, Any], neighbours: str | None) -> Around:
    """The strongest level that a machine offers. Raises NoWalls where it offers less than requested."""
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
    """An app behind walls. The agent stays outside: it hands out the app's connections and answers its system calls."""

    def __init__(self, loop: Loop, fields: list[tuple[str, str]], home: str) -> None:
        """Takes the fields of its plan, and the socket that its replicas get connections to."""
        packed = b"".join(_packed(*each) for each in (*fields, ("end", "")))
        self._plan = parse(packed)
        self._loop = loop
        self._connects: Connects | None = None
        outer, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Over this the ward sends its pid, then the descriptor of the kernel's notifications.
        self._heard, told = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The end of this pipe tells the ward that the agent has ended.
        lifeline, self._held = os.pipe()
        with inner, told:
            more = {DESCRIPTOR: inner.fileno(), TOLD: told.fileno(), LIFELINE: lifeline}
            if min(more.values()) <= max(more):
                # One of them may be at a number that another is to get.
                raise OSError(errno.EBADF, "the agent has lost its own descriptors")
            super().__init__([PYTHON, "-I", "-S", "-c", _WARD], packed, {}, more)
        os.close(lifeline)
        self._starter = self.pid
        self._is_throttled = False
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
            self._hear(IN)  # The starter ends as soon as it has sent the pid of the process that it has started.
        return super().status_of_end(pid, status)

    def end(self) -> None:
        # A pid namespace ends with its first process; without one this process adopts the rest, and sweeps it.
        keeper.tell(self.pid, signal.SIGKILL)

    @property
    def top(self) -> int:
        return os.getpid()

    def kept(self) -> int:
        return super().kept() if self._plan.has_namespaces else self.pid

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
        """Takes the pid of the process that becomes the app, then the descriptor that it sends once its walls stand."""
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
            self.end()  # Its calls would wait forever.
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


def host_reads(folder: str) -> list[str]:
    """The files of the machine that its variables promise to every program; not its user's home, nor a seat."""
    found = os.environ.get
    named = [each for each in found("PATH", "").split(os.pathsep) if os.path.basename(each) in _PROGRAMS]
    for name in ("LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        named += found(name, "").split(os.pathsep)
    private = [os.path.realpath(each) for each in (found("HOME", "/"), folder)]
    real = [os.path.realpath(each) for each in dict.fromkeys(named) if os.path.isabs(each)]
    return [each for each in real if not any(is_within(path, each) for path in private)]


def _packed(name: str, value: str) -> bytes:
    """A field of a plan. A zero byte would start another field, of the app's choosing."""
    field = os.fsencode("%s=%s" % (name, value))
    if b"\0" in field:
        raise ValueError("a zero byte cannot be passed to a process")
    if len(os.fsencode(value)) >= _MAX_STRING_BYTES:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    return field + b"\0"


_HARNESS = "import sys; sys.path[:1] = [%s]; from millrace_worker.start import main; main()" % json.dumps(PYTHON_DIR)
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from millrace_agent.ward import run; run()"


def start_app(loop: Loop, task: Assignment, files: Files, home: str) -> tuple[Child, dict[str, str]]:
    """Starts the app, behind walls if there are any; the harness connects to the socket `home`, a server does not.

    Also returns the folders that it writes to, by their purpose.
    """
    around = files.around
    level = None if around is None else around.level
    storage = _storage(task.storage, files.folder)
    scratch = os.path.join(files.folder, "scratch")
    if level is not None:
        os.mkdir(scratch, 0o700)
    variables = environment_of(task.variables, storage, files.environment, None if level is None else scratch)
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
        # The machine's `python` may be another version than the app's.
        command = [files.python if program in ("python", "python3") else program, *rest]
    else:
        # In a namespace of its own the harness makes its own keeper; behind other walls the agent is its keeper.
        is_kept = level is not None and level != "userns"
        own = {"address": home if level is None else frames.DOOR, "bundle_dir": files.bundle, "kept": is_kept}
        order = json.dumps({**task.order, **own})
    if around is None or level is None:
        arguments = command if task.server is None else program_arguments(files.bundle, command)
        return Child(arguments, order.encode() + b"\n", variables), {"storage": storage}
    written = {"storage": storage, "scratch": scratch}
    fields = [
        ("level", level),
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
    """The command that runs a program in a folder without walls, below a keeper; our pid goes to its stdin."""
    return [PYTHON, "-I", "-S", "-c", _PROGRAM, PYTHON_DIR, folder, *program]


def _storage(wanted: str, folder: str) -> str:
    """The folder of the project's storage here; without one, a folder that is removed with the seat."""
    # The folder of all projects, if the machines here share one.
    shared = os.path.dirname(wanted)
    if shared != "/" and os.path.isdir(shared) and os.access(shared, os.W_OK):
        os.makedirs(wanted, 0o700, exist_ok=True)
    if os.path.isdir(wanted) and os.access(wanted, os.W_OK):
        return wanted
    own = os.path.join(folder, "storage")
    os.makedirs(own, exist_ok=True)
    return own
