"""Which addresses an app may connect to, and which ports it may take."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from .addresses import Address, Ranges, nameservers, numbers_of
from .listeners import NEIGHBOUR, OWN, SERVICE, Listeners
from .plan import Plan
from .server_port import AppLog, ServerPort

_MAX_BYTES = 1024 * 1024


class Neighbours:
    """The entries of a file, one in each line; none without a file. Raises OSError if there is none at the start.

    An entry is a machine (`10.0.0.5`, `fd00::5`), or one port of it (`10.0.0.5:4100`, `[fd00::5]:4100`).
    """

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._seen: tuple[int, int] | None = None
        self._machines: set[tuple[int, int]] = set()
        self._ports: dict[int, list[Address]] = {}
        if file is not None:
            self._read(file)

    def include(self, address: Address) -> bool:
        """Whether it is an address of a machine that is out of reach as a whole."""
        self._refresh()
        return (address.bits, address.value) in self._machines

    def serve(self, address: Address, is_here: Callable[[Address], bool]) -> bool:
        """Whether that port is out of reach, by whichever of its machine's addresses: of this machine all are known."""
        self._refresh()
        entries = self._ports.get(address.port, ())
        if any((each.bits, each.value) == (address.bits, address.value) for each in entries):
            return True
        return bool(entries) and is_here(address) and any(is_here(each) for each in entries)

    def _refresh(self) -> None:
        if self._file is not None:
            try:
                self._read(self._file)
            except OSError:
                pass  # The process that kept it ends. What was known still counts.

    def _read(self, file: str) -> None:
        status = os.stat(file)
        seen = (status.st_ino, status.st_mtime_ns)
        if seen == self._seen:
            return
        machines: set[tuple[int, int]] = set()
        ports: dict[int, list[Address]] = {}
        with open(file, encoding="ascii", errors="replace") as lines:
            for text in lines.read(_MAX_BYTES).split():
                address = _parse(text)
                if address is None:
                    continue
                if address.port == 0:
                    machines.add((address.bits, address.value))
                else:
                    ports.setdefault(address.port, []).append(address)
        self._machines, self._ports, self._seen = machines, ports, seen


def _parse(text: str) -> Address | None:
    """As an address counts, with port 0 for a whole machine; None where it is none."""
    host, port = text, "0"
    if text.startswith("[") or text.count(":") == 1:
        host, _, port = text.rpartition(":")
        host = host.strip("[]")
    try:
        return Address(*numbers_of(host), int(port))
    except (OSError, ValueError):
        return None


#: The first ten bits of fe80::/10.
_LINK_LOCAL = 0xFE80 >> 6


class Judge:
    """Decides by a plan's ranges, and on this machine by who listens."""

    def __init__(self, plan: Plan, listeners: Listeners, log: AppLog | None = None) -> None:
        self.listeners = listeners
        self._management_port = plan.management_port
        self._server_ports = plan.server_ports
        #: For an app that is a server: how its port is called inside.
        self.server_port = ServerPort(plan.declared_port, plan.own_port, log)
        self._denied = Ranges(plan.denied)
        self._private = Ranges(plan.private)
        self._allowed = Ranges(plan.allowed)
        #: Outside only, and what is allowed besides.
        self._is_egress = plan.network == "egress"
        self._is_guest = plan.is_guest
        self._neighbours = Neighbours(plan.neighbours)
        self._nameservers = {(each.bits, each.value, each.port) for each in nameservers()}

    def permits(self, address: Address) -> bool:
        # Names must be found, wherever the host has them looked up.
        if self._is_nameserver(address):
            return True
        if self._denied.include(address):
            return False
        is_here = _is_here(address)
        # What listens on this machine is judged by who it is.
        if not is_here and self._neighbours.include(address):
            return False
        if self._neighbours.serve(address, _is_here):
            return False
        is_allowed = not (self._is_egress or (self._is_guest and is_here)) or self._allowed.include(address)
        if is_here:
            if address.port == self._management_port:
                return False
            owners = self.listeners.at(address)
            # As long as it is not known which of its ports it is.
            if NEIGHBOUR in owners or (self._management_port == 0 and SERVICE in owners):
                return False
            return is_allowed or owners == {OWN}
        return is_allowed or not self._private.include(address)

    def port_to_reach(self, address: Address) -> int:
        """The port that a connection to this address is to be made to."""
        port = self.server_port.to_connect(address.port)
        is_own = port != address.port and not self._is_nameserver(address) and _is_here(address)
        return port if is_own else address.port

    def may_take(self, port: int) -> bool:
        """Whether it may listen there: on a port of another app's server it would get that one's calls."""
        return self.server_port.is_own(port) or port not in self._server_ports

    def note_in_use(self, port: int) -> None:
        """The app could not bind this port, as it named it."""
        if not self.listeners.has_own(port):
            self.server_port.note_in_use(port)

    def _is_nameserver(self, address: Address) -> bool:
        return (address.bits, address.value, address.port) in self._nameservers


def _is_here(address: Address) -> bool:
    """Whether it is an address of this machine: only those can be had."""
    if address.bits == 128 and address.value >> 118 == _LINK_LOCAL:
        # Which interface it counts on need not be in the name: the socket may be bound to one, now or later.
        return any(_can_be_had(address, scope) for scope, _ in socket.if_nameindex())
    return _can_be_had(address, address.scope)


def _can_be_had(address: Address, scope: int) -> bool:
    family, packed = address.packed()
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as attempt:
            place = (socket.inet_ntop(family, packed), 0)
            attempt.bind(place if family == socket.AF_INET else (*place, 0, scope))
    except OSError:
        return False
    return True
