"""A replica: one process that takes calls from the service until it is told to stop."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from typing import Any, Callable, Dict, NoReturn, Optional, Set

from . import app as apps
from . import frames, logs, sigterm
from .encode import make_encoder
from .order import Order


class Replica:
    """What the ways of running calls share: the wire, the order of beginning, and what ends a call."""

    def __init__(self, order: Order, app: apps.App, wire: socket.socket, control: socket.socket) -> None:
        self.order = order
        self.app = app
        self.wire = wire
        self.control = control
        self.make_encoder = make_encoder
        #: Set by the way of running: stops a begun call, grants chunks to one.
        self.cancel: Callable[[int], None] = lambda call_id: None
        self.grant: Callable[[int, int], None] = lambda call_id, count: None
        self.is_fork = False
        #: The service has said stop, and closes the wire behind the last call.
        self.is_stopping = False
        self._send_lock = threading.Lock()
        self._begin_lock = threading.Lock()
        self._begun = 0
        self._withdrawn: Set[int] = set()

    def begin(self, call_id: int) -> bool:
        """Says whether a call may begin; from then on it cannot be withdrawn."""
        with self._begin_lock:
            if call_id in self._withdrawn:
                self._withdrawn.discard(call_id)
                return False
            if call_id > self._begun:
                self._begun = call_id
        return True

    def withdraw(self, call_id: int) -> bool:
        """Takes back a call that has not begun. Calls begin in the order of their ids."""
        with self._begin_lock:
            if call_id <= self._begun:
                return False
            self._withdrawn.add(call_id)
        return True

    def send(self, frame: bytes) -> None:
        """Sends one frame whole, whichever thread it comes from."""
        if self.is_fork:
            os._exit(0)  # The user's function forked and the child came back: it has nothing to say here.
        try:
            with self._send_lock:
                self.wire.sendall(frame)
        except OSError:
            os._exit(1)  # Closed by the service, or by the app itself: nobody would hear another word.

    def stop_reading(self) -> None:
        """Reading then ends as if the service had closed; what has begun goes on to its end."""
        try:
            if not self.is_stopping:
                self.wire.shutdown(socket.SHUT_RD)
        except OSError:
            pass

    def give_up(self, error: BaseException) -> NoReturn:
        """The harness itself failed: better a crash that the service sees than a call that never ends."""
        import traceback

        if not self.is_fork:
            traceback.print_exception(type(error), error, error.__traceback__)
        os._exit(1)

    def left_by_fork(self) -> None:
        """In a child the user's code forked: the connections belong to the parent alone."""
        self.is_fork = True
        self.wire.close()
        self.control.close()


def start(order: Order) -> None:
    """An ordinary replica: imports the app, then serves."""
    ticket = order.replica_ticket or ""
    logs.send_home(order.address, ticket)
    wire = frames.connect(order.address, "wire", ticket)
    try:
        app = apps.load(order.ignore_extra)
    except BaseException as error:  # noqa: BLE001 - an import may raise anything, SystemExit included
        refuse(wire, error)
    serve(order, app, ticket, wire)


def refuse(wire: socket.socket, error: BaseException) -> NoReturn:
    """Tells the service why the app cannot start, and ends the process."""
    wire.sendall(frames.pack(frames.INIT_FAILED, 0, json.dumps(apps.describe_failure(error)).encode()))
    sys.exit(1)


def serve(order: Order, app: apps.App, ticket: str, wire: Optional[socket.socket] = None) -> None:
    """Says hello and takes calls until the service closes the wire or says stop."""
    wire = wire or frames.connect(order.address, "wire", ticket)
    control = frames.connect(order.address, "control", ticket)
    replica = Replica(order, app, wire, control)
    os.register_at_fork(after_in_child=replica.left_by_fork)
    run = _way_of_running(replica)
    finish = sigterm.take(replica.stop_reading)
    threading.Thread(target=_read_control, args=(replica,), name="millrace-control", daemon=True).start()
    hello: Dict[str, Any] = {"pid": os.getpid(), **app.describe()}
    replica.send(frames.pack(frames.HELLO, 0, json.dumps(hello).encode()))
    run()
    finish()
    _leave()


def _way_of_running(replica: Replica) -> Callable[[], None]:
    if replica.app.has_async:
        from .looped import Looped  # asyncio costs 20 ms to import: only for apps that use it

        return Looped(replica).run
    if replica.order.concurrency == 1:
        from .serial import Serial

        return Serial(replica).run
    from .threaded import Threaded

    return Threaded(replica).run


def _read_control(replica: Replica) -> None:
    reader = frames.FrameReader(replica.control)
    while True:
        try:
            received = reader.receive()
        except OSError:
            received = None
        if received is None:
            os._exit(1)  # The service is gone; nobody is left to work for.
        for call_id, kind, payload in received:
            if kind == frames.STOP:
                replica.is_stopping = True
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            elif kind == frames.CREDIT:
                replica.grant(call_id, frames.COUNT.unpack(payload)[0])
            elif kind in (frames.CANCEL, frames.WITHDRAW):
                taken_back = replica.withdraw(call_id)
                replica.control.sendall(frames.pack(frames.WITHDRAWN if taken_back else frames.BEGUN, call_id))
                if kind == frames.CANCEL and not taken_back:
                    replica.cancel(call_id)


def _leave() -> NoReturn:
    import atexit

    atexit._run_exitfuncs()
    os._exit(0)  # Threads the function left behind do not keep the replica alive.
