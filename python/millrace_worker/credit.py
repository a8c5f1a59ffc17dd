"""How many bytes of chunks a generator may still send before its reader has caught up."""

from __future__ import annotations

from threading import Condition

from .outbox import Flow, Outbox

#: Both sides start a stream with this much.
INITIAL_CREDIT_BYTES = 65536


class Credit(Flow):
    """The flow of a generator in a thread: it waits here, inside its `yield`, when it has sent what it was granted."""

    __slots__ = ("granted_bytes", "_outbox", "_is_cancelled", "_changed")

    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        #: All that was ever granted.
        self.granted_bytes = INITIAL_CREDIT_BYTES
        self._outbox = outbox
        self._is_cancelled = False
        self._changed = Condition()

    def add(self, count_bytes: int) -> None:
        with self._changed:
            self.granted_bytes += count_bytes
            self._changed.notify()

    def cancel(self) -> None:
        with self._changed:
            self._is_cancelled = True
            self.look_at_bytes = 0
            self._changed.notify()

    def look(self, sent_bytes: int) -> bool:
        """Waits until more was granted than was sent; False when the call was cancelled."""
        self._outbox.look(self, sent_bytes, self.granted_bytes)
        if sent_bytes >= self.granted_bytes:
            self._outbox.flush()  # A reader grants nothing for chunks that it has not got.
            with self._changed:
                while sent_bytes >= self.granted_bytes and not self._is_cancelled:
                    self._changed.wait()
        return not self._is_cancelled
