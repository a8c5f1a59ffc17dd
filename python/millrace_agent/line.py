"""The seat's own connection: lines of JSON, each a message of one member, in an order that is checked."""

from __future__ import annotations

import json
import ssl

from .channel import Channel
from .loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

#: With an app's secrets in it.
_MAX_LINE_BYTES = 16 * 1024 * 1024

#: What a service may say, and when: first a session, why there is none, or that there may be one soon; then the rest.
_MOVES = {
    "waiting": {"beat": "waiting", "session": "seated", "fenced": "over", "elsewhere": "over"},
    "seated": {
        "beat": "seated",
        "look": "seated",
        "where": "seated",
        "dial": "seated",
        "services": "seated",
        "ask": "seated",
        "run": "seated",
        "give": "seated",
        "bring": "seated",
        "end": "seated",
        "fenced": "over",
    },
    "over": {},
}


class Line:
    """A connection of the seat to a service. `hear` gets each message; `lose` is called once, when it has ended."""

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

    def end(self) -> None:
        """What was said last still arrives."""
        self._channel.end()

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
            self._break()  # Whatever this is, it is no service of ours.
            return
        self._hear(word, value)

    def _break(self) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._channel.close()
        self._lose()
