"""An event loop: waits for descriptors, signals and the next tick."""

from __future__ import annotations

import select
import signal
import socket
import time
from collections.abc import Callable

IN = select.EPOLLIN
OUT = select.EPOLLOUT

_TICK_SECONDS = 0.5


class Loop:
    """Calls the handlers of ready descriptors, and `tick` at least twice a second."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._waiting: dict[int, Callable[[int], None]] = {}
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        self._is_over = False
        self._is_woken = False
        self._next_at = 0.0
        #: Received signals that were not handled yet.
        self.signals: set[int] = set()
        self.watch(self._woken.fileno(), IN, self._rest)

    def catch(self, *numbers: int) -> None:
        """Has these signals wake the loop and appear in `signals`."""
        for number in numbers:
            signal.signal(number, lambda number, frame: self.signals.add(number))
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)

    def wake(self) -> None:
        """Runs the next tick at once; safe in any thread."""
        try:
            self._wake.send(b"\0")
        except OSError:
            pass  # It is awake already, or over.

    def hurry(self, seconds: float) -> None:
        """Runs the next tick within that time."""
        self._next_at = min(self._next_at, time.monotonic() + seconds)

    def watch(self, descriptor: int, events: int, act: Callable[[int], None]) -> None:
        self._waiting[descriptor] = act
        self._epoll.register(descriptor, events)

    def change(self, descriptor: int, events: int) -> None:
        self._epoll.modify(descriptor, events)

    def forget(self, descriptor: int) -> None:
        """Stops watching; call it before closing the descriptor."""
        if self._waiting.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def run(self, tick: Callable[[float], None]) -> None:
        poll = self._epoll.poll
        waiting = self._waiting
        while not self._is_over:
            ready = poll(max(0.0, self._next_at - time.monotonic()))
            # An earlier handler may close a descriptor, and a later one open another of that number: its events differ.
            for descriptor, events, act in [(each, events, waiting.get(each)) for each, events in ready]:
                if act is not None and waiting.get(descriptor) is act:
                    act(events)
            now = time.monotonic()
            if now >= self._next_at or self._is_woken:
                self._is_woken = False
                self._next_at = now + _TICK_SECONDS
                tick(now)

    def stop(self) -> None:
        self._is_over = True

    def _rest(self, _events: int) -> None:
        self._is_woken = True
        try:
            while self._woken.recv(4096):
                pass
        except BlockingIOError:
            pass
