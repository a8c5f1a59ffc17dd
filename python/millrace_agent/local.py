"""An agent on the service's own machine: the only process of an app that is not behind its walls.

It starts the program of its plan, opens its connections, answers its system calls, watches its memory and folders, and
answers the service. When the program or the service ends, it ends everything that is left.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time

from millrace_walls import walls
from millrace_walls.plan import Plan, parse
from millrace_worker import keeper, linux

from .door import Door
from .ward import DESCRIPTOR, become

# Each start of an app waits for this file's imports: what not every start needs is imported where it is used.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from millrace_walls.connects import Connects

    from .held import Held
    from .listening import OwnServer

_LINES_BYTES = 64 * 1024
#: A killed process takes a moment to be gone: two seconds at most.
_ROUNDS = 1000
#: Of one search: more than an app may have.
_MAX_PROCESSES = 4_096


class Service:
    """The agent's end of its connection to the service: lines of JSON, listed in `docs/wire.md`. JSON is imported with
    the first line: few agents get one.
    """

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._rest = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    def hear(self, answers: Any, flags: int = 0) -> bool:
        """Receives, and has a method of `answers` handle each message; false when the service is gone."""
        try:
            data = self._socket.recv(_LINES_BYTES, flags)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._obey(line, answers)
        return len(data) > 0

    def say(self, word: str, value: Any) -> None:
        import json

        try:
            self._socket.sendall(json.dumps({word: value}).encode() + b"\n")
        except OSError:
            pass  # It is gone, or about to be.

    def _obey(self, line: bytes, answers: Any) -> None:
        import json

        ((word, value),) = json.loads(line).items()
        if word == "look":
            self.say("seen", {"id": int(value["id"]), **answers.look(int(value["pid"]))})
        elif word == "where":
            self.say("at", {"id": int(value["id"]), **answers.where()})
        elif word == "ask":
            answers.ask()
        elif word == "fork":
            answers.fork(str(value["ticket"]))
        elif word == "lend":
            answers.lend(str(value["ticket"]), str(value["path"]))
        elif word == "show":
            self.say("shown", {"id": int(value["id"]), "problem": answers.show([str(each) for each in value["gpus"]])})


def main() -> None:
    """Reads a plan from stdin (nothing of it may show in `ps`), then keeps what it describes."""
    owner = os.getppid()
    linux.close_inherited(DESCRIPTOR + 1)
    text = sys.stdin.buffer.read()
    if not text:
        os._exit(1)  # The service has died.
    plan = parse(text)
    service = Service(DESCRIPTOR) if plan.has_service else None
    outer, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    lifeline, held = os.pipe()
    # Over this the ward sends what only it can make: the descriptor of the kernel's notifications.
    heard, told = socket.socketpair()
    door = None if plan.home is None else Door(outer, plan.home)
    log = None
    if plan.own_port:
        from millrace_walls.server_port import AppLog

        log = AppLog()

    def ward() -> None:
        outer.close()
        heard.close()
        os.close(held)
        become(plan, inner, told, lifeline)

    def wait_for(child: int) -> int:
        inner.close()
        told.close()
        os.close(lifeline)
        # This waits for the walls. Without a descriptor no system calls need answers, or the ward has failed.
        with heard:
            _, descriptors, _, _ = socket.recv_fds(heard, 1, 1, socket.MSG_CMSG_CLOEXEC)
        connects = walls.answers(plan, descriptors[0], owner, log) if descriptors else None
        return _Attendant(plan, child, door, connects, service).wait()

    if plan.checks_storage:
        from .held import Folder

        if any(Folder(path, most).measure() for name, most, path in plan.watched if name == "storage"):
            if service is not None:
                service.say("exited", {"full": "storage", "is_storage_full": True})
            os._exit(128 + signal.SIGKILL)
    keeper.keep(ward, owner, lambda: walls.fork(plan), wait_for)


class _Attendant:
    """The agent's work while the program runs."""

    def __init__(
        self, plan: Plan, child: int, door: Door | None, connects: Connects | None, service: Service | None
    ) -> None:
        self._plan = plan
        self._child = child
        self._door = door
        self._connects = connects
        self._service = service
        self._ended, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        self._held: Held | None = None
        self._server: OwnServer | None = None
        if plan.watched_memory is None and not plan.watched:
            return
        from .held import Held

        self._held = Held(self._wake_up, counts_place=False)
        if plan.watched_memory is not None:
            self._held.watch_memory(plan.watched_memory, os.getpid(), self._forks)
        for name, most, path in plan.watched:
            self._held.watch_folder(name, path, most, plan.storage)

    def wait(self) -> int:
        """Works until the child has ended; returns its wait status."""
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        while True:
            status = signal.SIGKILL if self._held and self._held.full else _reap(self._child)
            if status is not None:
                self._say_goodbye()
                return status
            if not self._answer():
                return signal.SIGKILL

    def _answer(self) -> bool:
        """Waits for something to do, and does it; false when the service is gone. That also covers a service that died
        before this process could ask the kernel for a signal.
        """
        pause = self._door.pause_seconds() if self._door else 0
        poll = select.poll()
        poll.register(self._ended, select.POLLIN)
        if self._door is not None and pause == 0:
            poll.register(self._door, select.POLLIN)
        for source in (self._connects, self._service):
            if source is not None:
                poll.register(source, select.POLLIN)
        dues = [each.pause_seconds() for each in (self._connects, self._held) if each is not None]
        waits = [each for each in (pause or None, *dues) if each is not None]
        ready = {descriptor for descriptor, _ in poll.poll(min(waits) * 1000 if waits else None)}
        # Before the door: the service announces a ticket before a replica shows it there.
        if self._service is not None and not self._service.hear(self, socket.MSG_DONTWAIT):
            return False
        if self._ended.fileno() in ready:
            self._ended.recv(4096)
        if self._door is not None and self._door.fileno() in ready and not self._door.answer():
            self._door = None
        if self._connects is not None and not self._connects.work():
            self._connects = None
        if self._held is not None:
            self._held.look()
        return True

    # Called by `Service`. The imports happen then: few agents get such messages.

    def look(self, pid: int) -> dict[str, Any]:
        """The usage and vitals of a process; 0 is the app's program."""
        from . import looks

        return {"out_of_memory": self._held.deaths if self._held else 0, **looks.look_at(pid or self._kept())}

    def where(self) -> dict[str, Any]:
        """Where the app's own server listens."""
        from .listening import OwnServer

        if self._plan.server is None:
            return {"is": False}
        self._server = self._server or OwnServer(*self._plan.server)
        return {"pid": self._kept(), **self._server.place(os.getpid())}

    def ask(self) -> None:
        """Asks the app's program to end."""
        pid = self._kept()
        if pid > 0:
            keeper.tell(pid, signal.SIGTERM)

    def fork(self, ticket: str) -> None:
        """Expects a replica with this ticket, which gets a memory limit of its own."""
        if self._door is not None:
            self._door.expect(ticket)

    def lend(self, ticket: str, path: str) -> None:
        """Has the process that shows this ticket get this file, open for reading."""
        if self._door is not None:
            self._door.lend(ticket, path)

    def show(self, gpus: list[str]) -> str | None:
        """Has the app's processes open exactly these GPUs, by their device files; returns why not, or None."""
        if not self._plan.has_namespaces:
            return None  # What they can open was fixed at their start.
        from millrace_walls.gpus import Gpus
        from millrace_walls.namespaces import show_gpus

        try:
            own = Gpus(self._plan.gpus, gpus)
            return show_gpus(self._child, own) or _end_holders(set(own.closed()))
        except (OSError, ValueError) as error:
            return str(error)

    def _say_goodbye(self) -> None:
        """Reports what this process's exit code does not say."""
        if self._service is None or self._held is None:
            return
        told = {name: value for name, value in self._held.told().items() if value}
        # A program that ended before the first look may have written a lot.
        is_storage_full = self._held.full == "storage" or self._held.is_over("storage")
        if is_storage_full or self._plan.checks_storage:
            told["is_storage_full"] = is_storage_full
        if told:
            self._service.say("exited", told)

    def _kept(self) -> int:
        """The pid of the app's program; 0 while there is none. In a namespace of its own it is below a keeper."""
        return next(iter(linux.children_of(self._child)), 0) if self._plan.has_namespaces else self._child

    def _forks(self) -> dict[str, int]:
        door = self._door  # Read once: this is another thread, and the app may close it now.
        return {} if door is None else door.forks()

    def _wake_up(self) -> None:
        try:
            self._wake.send(b"\0")
        except OSError:
            pass  # It is awake already.


def _end_holders(devices: set[str]) -> str | None:
    """Ends processes of the app that still have one of these devices open: a replica that has ended may have handed it
    to them. Returns what is left, or None.
    """
    from . import looks, memory

    found: list[int] = []
    for _ in range(_ROUNDS):
        found = [
            pid
            for pid in looks.below(os.getpid(), _MAX_PROCESSES, None)
            if any(_has_open(link, devices) for link in memory.links_in(memory.descriptor_folders(pid)))
        ]
        if not found:
            return None
        for pid in found:
            keeper.tell(pid, signal.SIGKILL)
        time.sleep(keeper.PAUSE_SECONDS)
    return "process %d has a GPU open and does not end" % found[0]


def _has_open(link: str, devices: set[str]) -> bool:
    """Whether a descriptor is one of those devices, opened for more than its name."""
    try:
        if os.readlink(link) not in devices:
            return False
        folder, _, number = link.rpartition("/fd/")
        with open("%s/fdinfo/%s" % (folder, number), encoding="ascii") as lines:
            flags = next(line.split()[1] for line in lines if line.startswith("flags:"))
        return not int(flags, 8) & os.O_PATH
    except (OSError, StopIteration):
        return False  # It was closed, or its process has ended.


def _reap(child: int) -> int | None:
    """Reaps finished processes, including orphans; returns the child's wait status if it is among them."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            return status
        if pid == 0:
            return None
