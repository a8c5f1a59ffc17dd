"""How many bytes of chunks a generator may still send before its reader has caught up."""

from __future__ import annotations

from threading import Condition
from typing import Callable

#: Both sides start a stream with this much.
INITIAL_CREDIT_BYTES = 65536


class Credit:
    """A generator waits here, inside its `yield`, when it has sent what it was granted.

    What was granted is counted here and what was sent by the sender: each number has one writer, so that a
    chunk costs a comparison and no lock.
    """

    def __init__(self, flush: Callable[[], None]) -> None:
        #: All that was ever granted; 0 after a cancel, which nothing sent is below.
        self.granted_bytes = INITIAL_CREDIT_BYTES
        self._is_cancelled = False
        self._changed = Condition()
        self._flush = flush

    def add(self, count_bytes: int) -> None:
        with self._changed:
            if not self._is_cancelled:
                self.granted_bytes += count_bytes
            self._changed.notify()

    def cancel(self) -> None:
        with self._changed:
            self._is_cancelled = True
            self.granted_bytes = 0
            self._changed.notify()

    def wait(self, sent_bytes: int) -> bool:
        """Waits until more was granted than was sent; False when the call was cancelled instead."""
        self._flush()  # A reader grants nothing for chunks that it has not got.
        with self._changed:
            while sent_bytes >= self.granted_bytes and not self._is_cancelled:
                self._changed.wait()
        return not self._is_cancelled
