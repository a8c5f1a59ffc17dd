"""What an agent is given where it starts, and what a service tells it then."""

from __future__ import annotations

import re
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HEX = re.compile(r"[0-9a-f]{32}\Z")
_HASH = re.compile(r"[0-9a-f]{64}\Z")
_LEVEL = re.compile(r"(auto|process|landlock|userns)\Z")
_MAX_ADDRESSES = 64


class SeatOrder:
    """Nothing of this is worth anything once its ticket has been used."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.seat_id: str = fields["seatId"]
        self.addresses: list[tuple[str, int]] = [read_address(text) for text in fields["addresses"]]
        self.authority: str = fields["authority"]
        self.ticket: str = fields["ticket"]
        self.grace_seconds: float = fields["graceMs"] / 1000
        #: A file with the addresses of machines that its place shows to nobody. Whoever starts the agent writes it.
        self.neighbours: str | None = fields.get("neighbours")
        #: Where the agent keeps its files; None for a folder of its own choice.
        self.folder: str | None = fields.get("folder")


class Session:
    """By what the seat is known from now on. Raises ValueError, KeyError or TypeError for what is no session."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.secret = _matching(_HEX, fields["secret"])
        self.fence = int(fields["fence"])
        self.grace_seconds = float(fields["grace_ms"]) / 1000
        self.addresses = read_addresses(fields["addresses"])
        self.sit = Sitting(fields["sit"])


class Sitting:
    """What is to run in the seat."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.bundle = _matching(_HASH, fields["bundle"])
        environment = fields["environment"]
        self.environment = None if environment is None else _matching(_HASH, environment)
        #: Where the project's storage is in this place, if it is there.
        self.storage: str = fields["storage"]
        walls = fields["walls"]
        #: What it is to live behind; None where the place itself is what it lives behind.
        self.walls = None if walls is None else Walls(walls)
        limits = fields.get("limits")
        #: What it is held to; None where the place itself does that.
        self.limits = None if limits is None else Limits(limits)
        self.variables: dict[str, str] = fields["variables"]
        #: For the harness; where it calls home and where the app is, the agent fills in.
        self.order: dict[str, Any] = fields["order"]
        #: Nothing of the app runs: an environment is built.
        self.is_build = fields.get("build") is True
        server = fields["server"]
        #: The app's own server in place of the harness.
        self.server = None if server is None else Server(server)


class Walls:
    """What an app is to live behind."""

    def __init__(self, fields: dict[str, Any]) -> None:
        #: The weakest level to accept, or `auto`: in either case the strongest that there is.
        self.isolation = _matching(_LEVEL, fields["isolation"])
        #: What the outer keeper is told of the app's network.
        self.network: list[tuple[str, str]] = [(str(name), str(value)) for name, value in fields["network"]]
        #: It does not start where its connections cannot be judged.
        self.must_judge = fields["must_judge"] is True


class Limits:
    """What an app is held to, in bytes; None for as much as there is."""

    def __init__(self, fields: dict[str, Any]) -> None:
        #: Of each replica.
        self.memory = _amount(fields["memory"])
        #: What its folders may hold, by the name by which the service is told of one that is full.
        self.folders = {name: _amount(fields[name]) for name in ("scratch", "storage")}


class Server:
    """An app's own server."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.command: list[str] = list(fields["command"])
        self.port = int(fields["port"])
        #: The port that its author wrote, which may be in its code.
        self.authored = int(fields["authored"])
        #: For what it prints.
        self.ticket = _matching(_HEX, fields["ticket"])


def read_address(text: str) -> tuple[str, int]:
    """`host:port`, with brackets around the host if it has colons."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def read_addresses(texts: list[str]) -> list[tuple[str, int]]:
    """As many of them as anybody needs."""
    return [read_address(text) for text in texts[:_MAX_ADDRESSES]]


def read_ticket(text: str) -> str:
    """Raises ValueError for what is no ticket."""
    return _matching(_HEX, text)


def read_hash(text: str) -> str:
    """Raises ValueError for what is the name of no blob."""
    return _matching(_HASH, text)


def _amount(value: Any) -> int | None:
    if value is None:
        return None
    if int(value) <= 0:
        raise ValueError("not as expected")
    return int(value)


def _matching(pattern: re.Pattern[str], text: str) -> str:
    if not pattern.match(text):
        raise ValueError("not as expected")
    return text


def is_numeric(address: object) -> bool:
    """Whether it is an address, and not a name."""
    if not isinstance(address, str):
        return False
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    except OSError:
        return False
    return True
