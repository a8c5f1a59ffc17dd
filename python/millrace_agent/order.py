"""The order that an agent starts with, and the session that a service gives it."""

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
    """What an agent starts with. Once its ticket has been used, none of it is secret."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.seat_id: str = fields["seatId"]
        self.addresses: list[tuple[str, int]] = [read_address(text) for text in fields["addresses"]]
        self.authority: str = fields["authority"]
        self.ticket: str = fields["ticket"]
        self.grace_seconds: float = fields["graceMs"] / 1000
        #: A file with the addresses of machines that no app may reach, written by the starter of the agent.
        self.neighbours: str | None = fields.get("neighbours")
        #: The agent's folder; None for one of its own choice.
        self.folder: str | None = fields.get("folder")


class Session:
    """The seat's identity and task. Raises ValueError, KeyError or TypeError for invalid fields."""

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
        #: The folder of the project's storage, if this machine has it.
        self.storage: str = fields["storage"]
        walls = fields["walls"]
        #: None where the seat itself, such as a pod, is the isolation.
        self.walls = None if walls is None else Walls(walls)
        limits = fields.get("limits") or {}
        #: Bytes of memory for each replica, and for each folder by its name; None for no limit, as in a pod.
        self.max_memory = _amount(limits.get("memory"))
        self.max_folders = {name: _amount(limits.get(name)) for name in ("scratch", "storage")}
        self.variables: dict[str, str] = fields["variables"]
        #: The harness's order; the agent adds the address and the bundle's folder.
        self.order: dict[str, Any] = fields["order"]
        #: The seat builds an environment instead of running the app.
        self.is_build = fields.get("build") is True
        server = fields["server"]
        #: The app's own server, instead of the harness.
        self.server = None if server is None else Server(server)


class Walls:
    def __init__(self, fields: dict[str, Any]) -> None:
        #: The weakest level to accept, or `auto`; the agent takes the strongest that the machine supports.
        self.isolation = matching(_LEVEL, fields["isolation"])
        #: Fields of the plan about the app's network.
        self.network: list[tuple[str, str]] = [(str(name), str(value)) for name, value in fields["network"]]
        #: The app must not start where its connections cannot be judged.
        self.must_judge = fields["must_judge"] is True


class Server:
    def __init__(self, fields: dict[str, Any]) -> None:
        self.command: list[str] = list(fields["command"])
        self.port = int(fields["port"])
        #: The port in its configuration, which may also be in its code.
        self.authored = int(fields["authored"])
        #: For the connections of its output.
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
    """The text itself; raises ValueError if it does not match."""
    if not pattern.match(text):
        raise ValueError("not as expected")
    return text


def is_numeric(address: str) -> bool:
    """Whether a host is an IP address instead of a name."""
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    except OSError:
        return False
    return True
