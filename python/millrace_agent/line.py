"""The seat's own connection: lines of JSON, each an object with one member, in a checked order."""

from __future__ import annotations

import json
import socket
import ssl
import threading

from .channel import Channel
from .loop import Loop
from .order import is_numeric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

#: Addresses of one name.
_MAX_FOUND = 16


class Addresses:
    """The services' addresses, in rotation. Names are resolved in other threads, which may take long."""

    def __init__(self, known: list[tuple[str, int]], wake: Callable[[], None]) -> None:
        self._known = list(known)
        self._next = 0
        self._wake = wake
        #: Resolved addresses that were not tried yet.
        self._found: list[tuple[str, int]] = []
        self._sought: set[tuple[str, int]] = set()

    @property
    def is_found(self) -> bool:
        """Whether there is a resolved address to try."""
        return len(self._found) > 0

    def take(self) -> tuple[str, int] | None:
        """The next numeric address. None if it is a name, which is then being resolved."""
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
        """Replaces the known addresses, unless `known` is empty."""
        self._known = known or self._known
        self._found = []

    def prefer(self, address: tuple[str, int]) -> None:
        if address not in self._known:
            self._known.append(address)
        self._next = self._known.index(address)
        self._found = []

    def _look_up(self, address: tuple[str, int]) -> None:
        found: dict[tuple[str, int], None] = {}
        try:
            for *_, place in socket.getaddrinfo(address[0], address[1], type=socket.SOCK_STREAM):
                found[(str(place[0]), int(place[1]))] = None
        except (OSError, UnicodeError):
            pass  # Its turn comes again.
        self._found = [*found][:_MAX_FOUND]
        self._sought.discard(address)
        self._wake()


#: Room for an app's secrets.
_MAX_LINE_BYTES = 16 * 1024 * 1024

_SEATED = ("beat", "look", "where", "dial", "services", "ask", "run", "give", "bring", "end")
#: The messages that are valid in each phase, with the phase after them.
_MOVES = {
    "waiting": {"beat": "waiting", "session": "seated", "fenced": "over", "elsewhere": "over"},
    "seated": {**dict.fromkeys(_SEATED, "seated"), "fenced": "over"},
    "over": {},
}


class Line:
    """A connection of the seat to a service. `hear` gets each message; `lose` is called once, at its end."""

    def __init__(
        self,
        loop: Loop,
        context: ssl.SSLContext,
        address: tuple[str, int],
        preface: str,
        hear: Callable[[str, Any], None],
        lose: Callable[[], None],
    ) -> None:
        self._hear = hear
        self._lose = lose
        self._phase = "waiting"
        self._rest = bytearray()
        self._is_open = False
        self._is_lost = False
        self._channel = Channel(loop, context, address, preface.encode("ascii") + b"\n", self)

    def say(self, word: str, value: Any) -> None:
        if self._is_open:
            self._channel.send(json.dumps({word: value}).encode() + b"\n")

    def close(self) -> None:
        self._channel.close()

    @property
    def is_drained(self) -> bool:
        return not self._channel.is_full

    def on_open(self) -> None:
        self._is_open = True

    def on_data(self, data: memoryview) -> bool:
        self._rest += data
        if len(self._rest) > _MAX_LINE_BYTES:
            self._break()
            return True
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        for line in lines:
            self._take(line)
        return True

    def on_drained(self) -> None:
        pass

    def on_end(self, is_orderly: bool) -> None:
        del is_orderly
        self._break()

    def _take(self, line: bytearray) -> None:
        if self._is_lost:
            return
        try:
            message = json.loads(line)
            ((word, value),) = message.items()
            self._phase = _MOVES[self._phase][word]
        except (ValueError, AttributeError, KeyError):
            self._break()  # The other side does not follow the protocol.
            return
        self._hear(word, value)

    def _break(self) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._channel.close()
        self._lose()
