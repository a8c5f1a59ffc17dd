"""A template: imports the app once, then forks a replica whenever the service asks for one.

Talks to the service in lines of JSON. Up: `ready` (functions, whether it forks), `failed`, `forked`, `exited`.
Down: `fork` (id, ticket), `kill` (id), `end` (id, when `kill` has not helped). Each forked replica has a keeper of its
own between itself and the template, so that a template only ever sees keepers come and go.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any, NoReturn

from . import app as apps
from . import forkable, frames, keeper, linux, logs
from . import serve as replicas
from .app import Order
from .frames import REASON_CHARS


def serve(order: Order) -> None:
    """Imports, says ready, then forks on demand; without the right to fork it becomes the replica itself."""
    ticket = order.template_ticket or ""
    logs.send_home(order.address, ticket)
    home = frames.connect(order.address, "template", ticket)
    before = forkable.open_descriptors()
    try:
        app = apps.load(order)
    except BaseException as error:  # noqa: BLE001 - an import may raise anything, SystemExit included
        _say(home, {"failed": apps.describe_failure(error)})
        sys.exit(1)
    reason = forkable.reason_against(before) or _reason_of_gpus(order)
    reason = reason and reason[:REASON_CHARS]
    _say(home, {"ready": {**app.describe(), "pid": os.getpid(), "forks": reason is None, "reason": reason}})
    if reason is None:
        if any(entry.takes_lists for entry in app.entries.values()):
            importlib.import_module(".together", __package__)  # Forks inherit it: none of their calls waits for it.
        gc.collect()
        gc.freeze()  # Else the first collection in each replica would copy every page it looks at.
        _Nursery(order, app, home).run()
    else:
        home.close()
        logs.send_home(order.address, order.replica_ticket or "")
        replicas.serve(order, app, order.replica_ticket or "")


def _reason_of_gpus(order: Order) -> str | None:
    if not order.gpu_files:
        return None
    from millrace_walls.gpus import reason_against_forks

    return reason_against_forks(order.gpu_files)


def _say(home: socket.socket, message: dict[str, Any]) -> None:
    home.sendall(json.dumps(message).encode() + b"\n")


class _Nursery:
    """The template's loop: handles orders from the service, and ended keepers."""

    def __init__(self, order: Order, app: apps.App, home: socket.socket) -> None:
        self._order = order
        self._app = app
        self._home = home
        self._keepers: dict[int, str] = {}
        self._ended, self._wake = socket.socketpair()
        self._wake.setblocking(False)

    def run(self) -> None:
        linux.adopt_orphans()
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        rest = b""
        while True:
            readable, _, _ = select.select([self._home, self._ended], [], [])
            if self._ended in readable:
                self._ended.recv(4096)
                self._reap()
            if self._home in readable:
                received = self._home.recv(65536)
                if not received:
                    # Retired, or the service is gone: the keepers end with this process, even if they are stopped.
                    for pid in self._keepers:
                        keeper.tell(pid, signal.SIGTERM)
                    keeper.wake()
                    return
                *lines, rest = (rest + received).split(b"\n")
                for line in lines:
                    self._obey(json.loads(line))

    def _obey(self, message: dict[str, Any]) -> None:
        if "fork" in message:
            told = message["fork"]
            self._fork(told["id"], told["ticket"], told.get("gpus"))
        elif "kill" in message:
            self._end(message["kill"], signal.SIGTERM)
        elif "end" in message:
            # This process adopts what is below that keeper, and kills it in `_reap`.
            self._end(message["end"], signal.SIGKILL)

    def _end(self, ended_id: str, number: int) -> None:
        for pid, replica_id in self._keepers.items():
            if replica_id == ended_id:
                keeper.tell(pid, number)

    def _fork(self, replica_id: str, ticket: str, gpus: dict[str, Any] | None) -> None:
        owner = os.getpid()
        # A signal in the child must wait for its own handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        refusal: OSError | None = None
        try:
            pid = os.fork()
        except OSError as error:  # No memory or processes are left: the replicas that live must not end for that.
            pid, refusal = -1, error
        if pid == 0:
            self._become_keeper(owner, ticket, gpus)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        _say(self._home, {"forked": {"id": replica_id}})
        if refusal is None:
            self._keepers[pid] = replica_id
            return
        print("[millrace] a replica could not be forked: %s" % refusal, file=sys.stderr, flush=True)
        self._say_exited(replica_id, 1)

    def _say_exited(self, replica_id: str, code: int) -> None:
        _say(self._home, {"exited": {"id": replica_id, "code": code}})

    def _become_keeper(self, owner: int, ticket: str, gpus: dict[str, Any] | None) -> NoReturn:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for connection in (self._home, self._ended, self._wake):
                connection.close()
            keeper.keep(lambda: self._become_replica(ticket, gpus), owner)
        finally:
            os._exit(1)

    def _become_replica(self, ticket: str, gpus: dict[str, Any] | None) -> None:
        logs.send_home(self._order.address, ticket)
        if self._order.gpu_files:
            from millrace_walls.gpus import Gpus, keep_to

            keep_to(Gpus(self._order.gpu_files, gpus["files"] if gpus else []))
            if not gpus:
                os.environ["CUDA_VISIBLE_DEVICES"] = ""  # The template has those of its first replica.
        if gpus:
            os.environ.update(gpus["variables"])
        forkable.renew(self._app.module)
        replicas.serve(self._order, self._app, ticket)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                break
            replica_id = self._keepers.pop(pid, None)
            if replica_id is not None:
                self._say_exited(replica_id, keeper.exit_code(status))
        # A keeper that was itself killed leaves its orphans here.
        for stray in linux.children_of(os.getpid()):
            if stray not in self._keepers:
                keeper.tell(stray, signal.SIGKILL)
