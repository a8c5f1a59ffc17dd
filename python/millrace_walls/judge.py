"""Decides which addresses an app may connect to, and which ports it may bind."""

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
    """Machines (`10.0.0.5`, `fd00::5`) and ports of machines (`10.0.0.5:4100`, `[fd00::5]:4100`) that are out of reach,
    from the lines of a file that may change. Raises OSError if it cannot be read at the start.
    """

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._seen: tuple[int, int] | None = None
        self._machines: set[tuple[int, int]] = set()
        self._ports: dict[int, list[Address]] = {}
        if file is not None:
            self._read(file)

    def include(self, address: Address) -> bool:
        """Whether the whole machine of an address is out of reach."""
        self._refresh()
        return (address.bits, address.value) in self._machines

    def serve(self, address: Address, is_here: Callable[[Address], bool]) -> bool:
        """Whether a port is out of reach. A port of this machine is, by all its addresses."""
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
                pass  # The process that writes the file is ending. Keep the known entries.

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
    """An entry, with port 0 for a whole machine; None if it is invalid."""
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
    """Decides by a plan's ranges, and on this machine by the owner of the listening socket."""

    def __init__(self, plan: Plan, listeners: Listeners, log: AppLog | None = None) -> None:
        self.listeners = listeners
        self._management_port = plan.management_port
        self._server_ports = plan.server_ports
        #: For an app that is a server: the port that it sees.
        self.server_port = ServerPort(plan.declared_port, plan.own_port, log)
        self._denied = Ranges(plan.denied)
        self._private = Ranges(plan.private)
        self._allowed = Ranges(plan.allowed)
        #: Only the internet, and the allowed ranges.
        self._is_egress = plan.network == "egress"
        self._is_guest = plan.is_guest
        self._neighbours = Neighbours(plan.neighbours)
        self._nameservers = {(each.bits, each.value, each.port) for each in nameservers()}

    def permits(self, address: Address) -> bool:
        # Name resolution must work, wherever the host's name servers are.
        if self._is_nameserver(address):
            return True
        if self._denied.include(address):
            return False
        is_here = _is_here(address)
        # On this machine the owner of the listening socket counts.
        if not is_here and self._neighbours.include(address):
            return False
        if self._neighbours.serve(address, _is_here):
            return False
        is_allowed = not (self._is_egress or (self._is_guest and is_here)) or self._allowed.include(address)
        if is_here:
            if address.port == self._management_port:
                return False
            owners = self.listeners.at(address)
            # While the management port is unknown, all ports of the service are refused.
            if NEIGHBOUR in owners or (self._management_port == 0 and SERVICE in owners):
                return False
            return is_allowed or owners == {OWN}
        return is_allowed or not self._private.include(address)

    def port_to_reach(self, address: Address) -> int:
        """The port to connect to for this address."""
        port = self.server_port.to_connect(address.port)
        is_own = port != address.port and not self._is_nameserver(address) and _is_here(address)
        return port if is_own else address.port

    def may_take(self, port: int) -> bool:
        """Whether the app may listen there: on the port of another app's server it would get that server's requests."""
        return self.server_port.is_own(port) or port not in self._server_ports

    def note_in_use(self, port: int) -> None:
        """Notes that the app could not bind the port that it asked for."""
        if not self.listeners.has_own(port):
            self.server_port.note_in_use(port)

    def _is_nameserver(self, address: Address) -> bool:
        return (address.bits, address.value, address.port) in self._nameservers


def _is_here(address: Address) -> bool:
    """Whether it is an address of this machine: only those can be bound."""
    if address.bits == 128 and address.value >> 118 == _LINK_LOCAL:
        # On any interface: the name need not have one, because the socket may be bound to one, now or later.
        return any(_can_be_bound(address, scope) for scope, _ in socket.if_nameindex())
    return _can_be_bound(address, address.scope)


def _can_be_bound(address: Address, scope: int) -> bool:
    family, packed = address.packed()
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as attempt:
            place = (socket.inet_ntop(family, packed), 0)
            attempt.bind(place if family == socket.AF_INET else (*place, 0, scope))
    except OSError:
        return False
    return True
