"""Reads the messages of one event stream (server-sent events)."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from .errors import lost
from .transport import BROKEN, GRACE_SECONDS, Response, parsed


class Message(NamedTuple):
    """One message of an event stream."""

    id: str | None
    event: str | None
    data: str


def messages_of(response: Response, idle_seconds: float = GRACE_SECONDS) -> Generator[Message, None, None]:
    """Each message of one connection; returns only at its proper end, and raises `ConnectionLost` at any other."""
    rest = b""
    fields: dict[str, str] = {}
    while True:
        try:
            if not rest and response.fp:
                response.sock.settimeout(idle_seconds)
            piece = response.read1(65536)
        except BROKEN as error:
            raise lost(f"The connection broke: {error!r}", response.getheader("x-request-id")) from error
        if not piece:
            if response.length:
                raise lost("The connection broke.", response.getheader("x-request-id"))
            return
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            name, _, value = line.decode("utf-8", "replace").rstrip("\r").partition(":")
            value = value[1:] if value.startswith(" ") else value
            if name == "data" and "data" in fields:
                fields["data"] += "\n" + value
            elif name:
                fields[name] = value
            elif line.strip(b"\r") == b"":
                if "data" in fields:
                    yield Message(fields.get("id"), fields.get("event") or None, fields["data"])
                fields = {}


def is_events(response: Response) -> bool:
    """Whether a response is an event stream."""
    return (response.getheader("content-type") or "").startswith("text/event-stream")


def is_truncation(message: Message) -> bool:
    """Whether this is how the service says that it does not store what came here."""
    body = parsed(message.data) if message.event == "truncated" and message.id is None else None
    return body is not None and "firstEvent" in body


def is_note(message: Message) -> bool:
    """Whether the service says here where the run is in the queue, or how far it is. Chunks have a number."""
    return message.event in ("progress", "queue") and message.id is None


def is_all_gone(message: Message) -> bool:
    """Whether this is how the service says that it stores nothing of the stream at all."""
    return is_truncation(message) and (parsed(message.data) or {}).get("lastEvent") is None
