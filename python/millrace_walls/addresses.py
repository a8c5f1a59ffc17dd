"""Addresses of the internet as numbers, and ranges of them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

_MAPPED = 0xFFFF << 32
#: NAT64, how hosts without IPv4 reach it: as good or bad as the address inside.
_NAT64 = 0x64FF9B << 96

#: Shorter ones the kernel refuses itself.
_SHORTEST_4, _SHORTEST_6 = 8, 24


class Address:
    """Where a connection is to lead: what counts, and not how it is written."""

    __slots__ = ("bits", "port", "scope", "value")

    def __init__(self, bits: int, value: int, port: int, scope: int = 0) -> None:
        if bits == 128 and value >> 32 in (_MAPPED >> 32, _NAT64 >> 32):
            bits, value = 32, value & 0xFFFFFFFF
        # To connect to no address in particular leads to this machine.
        if value == 0:
            value = 0x7F000001 if bits == 32 else 1
        self.bits = bits
        self.value = value
        self.port = port
        #: The interface that an address counts on which every interface may have.
        self.scope = scope

    def packed(self) -> tuple[int, bytes]:
        """Its family and its bytes."""
        family = socket.AF_INET if self.bits == 32 else socket.AF_INET6
        return family, self.value.to_bytes(self.bits // 8, "big")


class Ranges:
    """Ranges of addresses, of both families."""

    def __init__(self, cidrs: Iterable[str]) -> None:
        self._ranges: list[tuple[int, int, int]] = []
        for cidr in cidrs:
            text, _, prefix = cidr.partition("/")
            packed = socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
            bits = len(packed) * 8
            shift = bits - int(prefix)
            self._ranges.append((bits, shift, int.from_bytes(packed, "big") >> shift))

    def include(self, address: Address) -> bool:
        return any(bits == address.bits and address.value >> shift == first for bits, shift, first in self._ranges)


def read_name(name: bytes) -> Address | None:
    """The address in what a process hands to `connect`; None where there is none, or only a part of one."""
    if len(name) < 2:
        return None
    (family,) = struct.unpack_from("=H", name)
    if family == socket.AF_INET and len(name) >= _SHORTEST_4:
        port, value = struct.unpack_from("!HI", name, 2)
        return Address(32, value, port)
    if family == socket.AF_INET6 and len(name) >= _SHORTEST_6:
        (port,) = struct.unpack_from("!H", name, 2)
        scope = struct.unpack_from("=I", name, 24)[0] if len(name) >= 28 else 0
        return Address(128, int.from_bytes(name[8:24], "big"), port, scope)
    return None


def nameservers(settings: str = "/etc/resolv.conf") -> list[Address]:
    """Who answers for names on this host, at the port where they are asked."""
    found: list[Address] = []
    try:
        with open(settings, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if len(words) < 2 or words[0] != "nameserver":
                    continue
                text = words[1].partition("%")[0]
                family = socket.AF_INET6 if ":" in text else socket.AF_INET
                try:
                    packed = socket.inet_pton(family, text)
                except OSError:
                    continue  # The C library ignores it too.
                found.append(Address(len(packed) * 8, int.from_bytes(packed, "big"), 53))
    except OSError:
        return found  # Without the file, the C library asks this machine; that is not opened up.
    return found
