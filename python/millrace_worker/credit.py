"""How many chunks a generator may still send before its reader has caught up."""

from __future__ import annotations

from threading import Condition

#: Both sides start a stream with this much.
INITIAL = 16


class Credit:
    """A generator waits here, inside its `yield`, when it has used what it was granted."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._left = INITIAL
        self.cancelled = False

    def add(self, count: int) -> None:
        with self._changed:
            self._left += count
            self._changed.notify()

    def cancel(self) -> None:
        with self._changed:
            self.cancelled = True
            self._changed.notify()

    def take(self) -> bool:
        """Waits for one; False when the call was cancelled instead."""
        with self._changed:
            while self._left == 0 and not self.cancelled:
                self._changed.wait()
            self._left -= 1
            return not self.cancelled
