"""The supervisor's connection to its service: lines of JSON, each an object with one member, in a checked order."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any, Callable

from millrace_agent.channel import SERVER_NAME

_BEAT_SECONDS = 2.0
_SILENCE_SECONDS = 6.0
_CONNECT_SECONDS = 10.0
#: The longest message has the ids of all seats of a service.
_MAX_LINE_BYTES = 4 * 1024 * 1024
#: More unread bytes than this mean that the service is gone.
_MAX_UNSENT_BYTES = 16 * 1024 * 1024

_SERVED = ("beat", "find", "begin", "end", "forget")
#: The messages that are valid in each phase, with the phase after them.
_MOVES = {
    "waiting": {"keep": "served", "leave": "over"},
    "served": {**dict.fromkeys(_SERVED, "served"), "leave": "over"},
    "over": {},
}


class Home:
    """One such connection, from its first line to its end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._phase = "waiting"

    @staticmethod
    async def reach(context: ssl.SSLContext, address: tuple[str, int], preface: str) -> Home:
        """Connects; raises OSError if there is no service."""
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(*address, ssl=context, server_hostname=SERVER_NAME, limit=_MAX_LINE_BYTES),
            _CONNECT_SECONDS,
        )
        writer.write(preface.encode("ascii") + b"\n")
        return Home(reader, writer)

    def say(self, word: str, value: Any) -> None:
        if self._writer.is_closing():
            return
        self._writer.write(json.dumps({word: value}).encode() + b"\n")
        if self._writer.transport.get_write_buffer_size() > _MAX_UNSENT_BYTES:
            self._writer.transport.abort()

    async def listen(self, hear: Callable[[str, Any], None]) -> None:
        """Passes on each message until the connection ends, falls silent or breaks the protocol."""
        beats = asyncio.ensure_future(self._beat())
        try:
            while line := await asyncio.wait_for(self._reader.readline(), _SILENCE_SECONDS):
                ((word, value),) = json.loads(line).items()
                self._phase = _MOVES[self._phase][word]
                hear(word, value)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, asyncio.TimeoutError):
            pass  # The caller connects again.
        finally:
            beats.cancel()
            self._writer.transport.abort()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            self.say("beat", {})
