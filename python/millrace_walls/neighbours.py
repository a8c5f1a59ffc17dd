"""What an app must not reach elsewhere, in a file that somebody keeps up to date while the app runs."""

from __future__ import annotations

import os
import socket

from .addresses import Address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

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
                pass  # Whoever kept it ends. What was known still counts.

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
        packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
        return Address(len(packed) * 8, int.from_bytes(packed, "big"), int(port))
    except (OSError, ValueError):
        return None
