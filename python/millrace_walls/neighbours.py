"""Machines that an app must not reach, in a file that somebody keeps up to date while the app runs."""

from __future__ import annotations

import os
import socket

from .addresses import Address

_MAX_BYTES = 1024 * 1024


class Neighbours:
    """The addresses in a file, one in each line; none without a file. Raises OSError if there is none at the start."""

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._seen: tuple[int, int] | None = None
        self._known: set[tuple[int, int]] = set()
        if file is not None:
            self._read(file)

    def include(self, address: Address) -> bool:
        if self._file is not None:
            try:
                self._read(self._file)
            except OSError:
                pass  # The seat ends. What was known still counts.
        return (address.bits, address.value) in self._known

    def _read(self, file: str) -> None:
        status = os.stat(file)
        seen = (status.st_ino, status.st_mtime_ns)
        if seen == self._seen:
            return
        with open(file, encoding="ascii", errors="replace") as lines:
            self._known = {each for line in lines.read(_MAX_BYTES).split() for each in _numbers(line)}
        self._seen = seen


def _numbers(text: str) -> list[tuple[int, int]]:
    """As an address counts; nothing where it is none."""
    try:
        packed = socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    except OSError:
        return []
    address = Address(len(packed) * 8, int.from_bytes(packed, "big"), 0)
    return [(address.bits, address.value)]
