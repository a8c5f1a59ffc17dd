"""What an agent is given where it starts, and what a service tells it then."""

from __future__ import annotations

import re
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: A ticket or a secret, and the name of a blob.
HEX = re.compile(r"[0-9a-f]{32}\Z")
HASH = re.compile(r"[0-9a-f]{64}\Z")
_LEVEL = re.compile(r"(auto|process|landlock|userns)\Z")
_MAX_ADDRESSES = 64


class SeatOrder:
    """Once its ticket has been used, none of it is secret."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.seat_id: str = fields["seatId"]
        self.addresses: list[tuple[str, int]] = [read_address(text) for text in fields["addresses"]]
        self.authority: str = fields["authority"]
        self.ticket: str = fields["ticket"]
        self.grace_seconds: float = fields["graceMs"] / 1000
        #: A file with the addresses of machines that no app may reach, which the starter of the agent writes.
        self.neighbours: str | None = fields.get("neighbours")
        #: Where the agent keeps its files; None for a folder of its own choice.
        self.folder: str | None = fields.get("folder")


class Session:
    """How the seat is known from now on. Raises ValueError, KeyError or TypeError for anything else."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.secret = matching(HEX, fields["secret"])
        self.fence = int(fields["fence"])
        self.grace_seconds = float(fields["grace_ms"]) / 1000
        self.addresses = read_addresses(fields["addresses"])
        self.assignment = Assignment(fields["sit"])


class Assignment:
    def __init__(self, fields: dict[str, Any]) -> None:
        self.bundle = matching(HASH, fields["bundle"])
        environment = fields["environment"]
        self.environment = None if environment is None else matching(HASH, environment)
        #: Where the project's storage is in this place, if it is there.
        self.storage: str = fields["storage"]
        walls = fields["walls"]
        #: What it is to live behind; None where the place itself is what it lives behind.
        self.walls = None if walls is None else Walls(walls)
        limits = fields.get("limits") or {}
        #: In bytes, None for no limit, and none of them where the place itself sets limits: the memory of each replica,
        #: and what its folders may hold, by the name by which the service is told of one that is full.
        self.max_memory = _amount(limits.get("memory"))
        self.max_folders = {name: _amount(limits.get(name)) for name in ("scratch", "storage")}
        self.variables: dict[str, str] = fields["variables"]
        #: For the harness; where it calls home and where the app is, the agent fills in.
        self.order: dict[str, Any] = fields["order"]
        #: Nothing of the app runs: an environment is built.
        self.is_build = fields.get("build") is True
        server = fields["server"]
        #: The app's own server in place of the harness.
        self.server = None if server is None else Server(server)


class Walls:
    def __init__(self, fields: dict[str, Any]) -> None:
        #: The weakest level to accept, or `auto`: in either case the strongest that there is.
        self.isolation = matching(_LEVEL, fields["isolation"])
        #: What the outer keeper is told of the app's network.
        self.network: list[tuple[str, str]] = [(str(name), str(value)) for name, value in fields["network"]]
        #: It does not start where its connections cannot be judged.
        self.must_judge = fields["must_judge"] is True


class Server:
    def __init__(self, fields: dict[str, Any]) -> None:
        self.command: list[str] = list(fields["command"])
        self.port = int(fields["port"])
        #: The port that its author wrote, which may be in its code.
        self.authored = int(fields["authored"])
        #: For what it prints.
        self.ticket = matching(HEX, fields["ticket"])


def read_address(text: str) -> tuple[str, int]:
    """`host:port`, with brackets around the host if it has colons."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def read_addresses(texts: list[str]) -> list[tuple[str, int]]:
    return [read_address(text) for text in texts[:_MAX_ADDRESSES]]


def _amount(value: Any) -> int | None:
    if value is not None and int(value) <= 0:
        raise ValueError("not as expected")
    return None if value is None else int(value)


def matching(pattern: re.Pattern[str], text: str) -> str:
    """Raises ValueError for anything else."""
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
