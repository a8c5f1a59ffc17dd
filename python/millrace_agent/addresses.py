"""Where services are, in the order in which they are tried."""

from __future__ import annotations

import socket
import threading

from .order import is_numeric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

#: Of one name.
_MAX_FOUND = 16


class Addresses:
    """Each in its turn, again and again. Names are looked up in threads of their own, which may take long."""

    def __init__(self, known: list[tuple[str, int]], wake: Callable[[], None]) -> None:
        self._known = list(known)
        self._next = 0
        self._wake = wake
        #: What was found under a name, and was not tried yet.
        self._found: list[tuple[str, int]] = []
        self._sought: set[tuple[str, int]] = set()

    @property
    def is_found(self) -> bool:
        """Whether a name has been looked up since."""
        return len(self._found) > 0

    def take(self) -> tuple[str, int] | None:
        """By number. None where it is a name, which is being looked up then."""
        if self._found:
            return self._found.pop(0)
        address = self._known[self._next % len(self._known)]
        self._next += 1
        if is_numeric(address[0]):
            return address
        if address not in self._sought:
            self._sought.add(address)
            threading.Thread(target=self._look_up, args=(address,), daemon=True).start()
        return None

    def learn(self, known: list[tuple[str, int]]) -> None:
        """Those are all, unless there are none."""
        self._known = known or self._known
        self._found = []

    def prefer(self, address: tuple[str, int]) -> None:
        """The next one."""
        if address not in self._known:
            self._known.append(address)
        self._next = self._known.index(address)
        self._found = []

    def _look_up(self, address: tuple[str, int]) -> None:
        """In a thread of its own."""
        found: dict[tuple[str, int], None] = {}
        try:
            for *_, place in socket.getaddrinfo(address[0], address[1], type=socket.SOCK_STREAM):
                found[(str(place[0]), int(place[1]))] = None
        except (OSError, UnicodeError):
            pass  # Its turn comes again.
        self._found = [*found][:_MAX_FOUND]
        self._sought.discard(address)
        self._wake()
