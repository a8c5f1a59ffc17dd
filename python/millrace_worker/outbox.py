"""Frames on their way out: chunks may wait a moment for each other, everything else takes them along and goes.

A thread sees to the chunks that wait, also beside an event loop: a coroutine that computes would hold up the
loop's own timers, and the thread was measured to be no slower.
"""

from __future__ import annotations

import os
import socket
import threading
from time import monotonic, sleep
from typing import NoReturn

#: How long after a write the next chunk waits for company: nobody notices it, and a thousand writes a second
#: are few (a write for each chunk allows 150,000 chunks/s, this 700,000).
HOLD_SECONDS = 0.001
#: What waits is sent at this size: half of a stream's first credit, so that its reader need not wait for the rest.
FULL_BYTES = 32 * 1024


class Outbox:
    """The only writer of the wire. Frames leave whole and in the order they came, from whichever thread."""

    def __init__(self, wire: socket.socket) -> None:
        #: In a child that the user's function forked.
        self.is_fork = False
        self._wire = wire
        self._lock = threading.Lock()
        self._waiting = bytearray()
        #: A millisecond after the last write, and after the last frame that was put by.
        self._due_at = 0.0
        self._held_until = 0.0
        #: The flusher is awake and will look at what waits.
        self._is_watched = False
        self._has_flusher = False
        self._wake = threading.Semaphore(0)

    def send(self, frame: bytes) -> None:
        """Sends at once, behind all that waits."""
        if self.is_fork:
            _leave()
        with self._lock:
            if self._waiting and len(frame) < FULL_BYTES:
                self._waiting += frame
                self._send_waiting()
                return
            if self._waiting:
                self._send_waiting()
            self._write(frame)

    def add(self, chunk: bytes) -> None:
        """Sends at once if the wire was quiet for a moment; else the chunk waits, a millisecond at most."""
        if self.is_fork:
            _leave()
        with self._lock:
            self._waiting += chunk
            if monotonic() >= self._due_at or len(self._waiting) >= FULL_BYTES:
                self._send_waiting()
            elif not self._is_watched:
                self._wake_flusher()

    def hold(self, frame: bytes) -> None:
        """Keeps a frame for the next one to take along, a millisecond at most."""
        if self.is_fork:
            _leave()
        with self._lock:
            self._waiting += frame
            self._held_until = monotonic() + HOLD_SECONDS
            if not self._is_watched:
                self._wake_flusher()

    def flush(self) -> None:
        """Sends what waits."""
        with self._lock:
            if self._waiting:
                self._send_waiting()

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, bytearray()
        self._write(waiting)

    def _write(self, data: bytes) -> None:
        try:
            self._wire.sendall(data)
        except OSError:
            os._exit(1)  # Closed by the service, or by the app itself: nobody would hear another word.
        self._due_at = monotonic() + HOLD_SECONDS

    def _wake_flusher(self) -> None:
        if not self._has_flusher:
            self._has_flusher = True
            threading.Thread(target=self._flush_forever, name="millrace-flusher", daemon=True).start()
        self._wake.release()
        self._is_watched = True

    def _flush_forever(self) -> None:
        while True:
            self._wake.acquire()
            # Looks before it sleeps: where a function computes, 5 ms may have passed until this thread got its turn.
            left = self._flush_late()
            while left > 0:
                sleep(left)
                left = self._flush_late()

    def _flush_late(self) -> float:
        """Sends what has waited long enough; gives the seconds until it has to look again, none if not above 0."""
        with self._lock:
            left = 0.0
            if self._waiting:
                left = max(self._due_at, self._held_until) - monotonic()
                if left <= 0:
                    self._send_waiting()
            self._is_watched = left > 0
            return left


def _leave() -> NoReturn:
    os._exit(0)  # The user's function forked and the child came back: it has nothing to say here.
