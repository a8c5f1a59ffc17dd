"""What the ways of running calls share: the wire, the order of beginning, and what ends a call."""

from __future__ import annotations

import os
import socket
import threading
from typing import Callable, NoReturn

from .app import App, Order
from .encode import make_encoder
from .outbox import Outbox


class Replica:
    """A replica, as the code that runs its calls sees it."""

    def __init__(self, order: Order, app: App, wire: socket.socket, control: socket.socket) -> None:
        self.order = order
        self.app = app
        self.wire = wire
        self.control = control
        self.make_encoder = make_encoder
        self.outbox = Outbox(wire)
        self.send = self.outbox.send
        #: Set by the way of running: stops a begun call, grants bytes to one.
        self.cancel: Callable[[int], None] = lambda call_id: None
        self.grant: Callable[[int, int], None] = lambda call_id, count_bytes: None
        #: The service has said stop, and closes the wire behind the last call.
        self.is_stopping = False
        self._is_fork = False
        self._begin_lock = threading.Lock()
        self._begun = 0
        self._withdrawn: set[int] = set()

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

        if not self._is_fork:
            traceback.print_exception(type(error), error, error.__traceback__)
        os._exit(1)

    def left_by_fork(self) -> None:
        """In a child the user's code forked: the connections belong to the parent alone."""
        self._is_fork = True
        self.outbox.left_by_fork()
        self.wire.close()
        self.control.close()
