"""Addresses of the internet as numbers, and ranges of them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

_MAPPED = 0xFFFF << 32
#: NAT64: hosts without IPv4 reach IPv4 addresses through these. The address inside decides.
_NAT64 = 0x64FF9B << 96

#: The start of an IPv4 address that is written as an IPv6 one.
_MAPPED_BYTES = bytes(10) + b"\xff\xff"
_LOOPBACK_4, _LOOPBACK_6 = b"\x7f\0\0\1", bytes(15) + b"\1"

#: The kernel refuses shorter ones.
_SHORTEST_4, _SHORTEST_6 = 8, 24


class Address:
    """The target of a connection, in one form for all its spellings."""

    __slots__ = ("bits", "port", "scope", "value")

    def __init__(self, bits: int, value: int, port: int, scope: int = 0) -> None:
        if bits == 128 and value >> 32 in (_MAPPED >> 32, _NAT64 >> 32):
            bits, value = 32, value & 0xFFFFFFFF
        self.bits = bits
        self.value = value
        self.port = port
        #: The interface of a link-local address.
        self.scope = scope

    def packed(self) -> tuple[int, bytes]:
        """Its family and its bytes."""
        family = socket.AF_INET if self.bits == 32 else socket.AF_INET6
        return family, self.value.to_bytes(self.bits // 8, "big")


def numbers_of(text: str) -> tuple[int, int]:
    """The bits and the value of an address without a port. Raises OSError for anything else."""
    packed = socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
    return len(packed) * 8, int.from_bytes(packed, "big")


class Ranges:
    """Ranges of addresses, of both families."""

    def __init__(self, cidrs: Iterable[str]) -> None:
        self._ranges: list[tuple[int, int, int]] = []
        for cidr in cidrs:
            text, _, prefix = cidr.partition("/")
            bits, value = numbers_of(text)
            shift = bits - int(prefix)
            self._ranges.append((bits, shift, value >> shift))

    def include(self, address: Address) -> bool:
        return any(bits == address.bits and address.value >> shift == first for bits, shift, first in self._ranges)


def read_name(name: bytes) -> Address | None:
    """The address in a `sockaddr`; None if it has none, or only a part of one."""
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


def with_real_host(name: bytes, bound: bytes) -> bytes:
    """Replaces an unspecified host in a `sockaddr` by the one that the kernel would take: what is judged and what is
    connected to must be the same. `bound` is the socket's own address, all zeros for none.
    """
    if len(name) < 2:
        return name
    (family,) = struct.unpack_from("=H", name)
    if family == socket.AF_INET and len(name) >= _SHORTEST_4 and name[4:8] == bytes(4):
        return name[:4] + _source_4(bound) + name[8:]
    if family == socket.AF_INET6 and len(name) >= _SHORTEST_6:
        if name[8:24] == bytes(16):
            # Loopback of the family that the socket is bound to.
            host = _MAPPED_BYTES + _LOOPBACK_4 if bound.startswith(_MAPPED_BYTES) else _LOOPBACK_6
            return name[:8] + host + name[24:]
        if name[8:24] == _MAPPED_BYTES + bytes(4):
            return name[:20] + _source_4(bound) + name[24:]
    return name


def with_port(name: bytes, port: int) -> bytes:
    """Replaces the port of a `sockaddr`, unless it is too short to have one."""
    return name if len(name) < 4 else name[:2] + port.to_bytes(2, "big") + name[4:]


def _source_4(bound: bytes) -> bytes:
    """The IPv4 address that a socket is bound to, or else loopback."""
    if len(bound) == 16:
        bound = bound[12:] if bound.startswith(_MAPPED_BYTES) else bytes(4)
    return _LOOPBACK_4 if bound == bytes(4) else bound


def nameservers(settings: str = "/etc/resolv.conf") -> list[Address]:
    """The name servers of this host, with the port of DNS."""
    found: list[Address] = []
    try:
        with open(settings, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                words = line.split()
                if len(words) < 2 or words[0] != "nameserver":
                    continue
                try:
                    found.append(Address(*numbers_of(words[1].partition("%")[0]), 53))
                except OSError:
                    continue  # The C library ignores it too.
    except OSError:
        pass  # Without the file, the C library asks this machine; that is not permitted.
    return found
