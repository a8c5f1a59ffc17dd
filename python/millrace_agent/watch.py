"""Watches a container from outside: answers the service, and reports folders that are full."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys

from millrace_worker import keeper, linux

from . import listening, looks
from .held import Held
from .local import Service
from .ward import DESCRIPTOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main() -> None:
    """Reads from stdin: the container's first process, the port of its server or 0, and the folders to watch."""
    linux.die_with_parent(os.getppid(), signal.SIGKILL)
    linux.close_inherited(DESCRIPTOR + 1)
    asked = json.loads(sys.stdin.buffer.read())
    Watch(int(asked["top"]), int(asked["port"]), asked["watched"]).run()


class Watch:
    def __init__(self, top: int, port: int, watched: list[tuple[str, int, str]]) -> None:
        self._top = top
        self._port = port
        self._service = Service(DESCRIPTOR)
        self._woken, self._wake = socket.socketpair()
        self._held = Held(self._wake_up, counts_place=False)
        for name, most, path in watched:
            self._held.watch_folder(name, path, most, top=top)

    def run(self) -> None:
        """Works until the service is gone."""
        while not self._held.full:
            poll = select.poll()
            for each in (self._service, self._woken):
                poll.register(each, select.POLLIN)
            pause = self._held.pause_seconds()
            for descriptor, _ in poll.poll(None if pause is None else pause * 1000):
                if descriptor == self._service.fileno() and not self._service.hear(self):
                    return
            self._held.look()
        self._service.say("full", self._held.full)
        while self._service.hear(self):
            pass

    def _wake_up(self) -> None:
        self._wake.send(b"\0")

    def look(self, pid: int) -> dict[str, Any]:
        """The usage and vitals of a process of the host; 0 is the whole container."""
        ancestor = self._top if pid else linux.parent_of(self._top)
        return {"out_of_memory": 0, **looks.look_at(pid or self._top, ancestor)}

    def where(self) -> dict[str, Any]:
        """Looks in the container's own network: outside, the engine listens from the start."""
        inside = listening.seen_by(self._top, self._port)
        if not inside:
            return {"is": False}
        is_open = listening.is_reached_from_outside(inside)
        return {"is": True, "host": "", "port": self._port, "is_fixed": False, "is_open": is_open}

    def ask(self) -> None:
        keeper.tell(self._top, signal.SIGTERM)

    def fork(self, ticket: str) -> None:
        """Does nothing: the engine limits the memory of a container."""

    def lend(self, ticket: str, path: str) -> None:
        """Does nothing: no container asks here for its connections."""

    def show(self, gpus: list[str]) -> None:
        """Does nothing: the engine decides on the devices of a container."""
