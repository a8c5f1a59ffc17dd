"""Who listens at a port of this machine: the app itself, another app of the service, or anybody else."""

from __future__ import annotations

import errno
import os
import socket
import struct

from .addresses import Address

OWN, NEIGHBOUR, SERVICE, OTHER = "own", "neighbour", "service", "other"

# How the kernel is asked for sockets: NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP.
_DIAGNOSIS, _BY_FAMILY, _ALL = 4, 20, 0x301
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBBI48x")
#: Family and port, address, number; what lies between does not matter here.
_SOCKET = struct.Struct("=B3x2s2x16s44xI")
_LISTENS = 1 << 10
_ANSWER_BYTES = 1 << 16
#: Verdicts that are remembered; beyond that, all are looked up again.
_MAX_KNOWN = 1024


class Listeners:
    """Looks at the kernel's tables, from the outer keeper's place: its own children are the app's."""

    def __init__(self, service: int) -> None:
        self._service = service
        self._keeper = os.getpid()
        #: A socket keeps its number and, as good as always, its owner.
        self._known: dict[int, str] = {}
        self._question = 0
        self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _DIAGNOSIS)

    def at(self, address: Address) -> set[str]:
        """Whose sockets listen there; with SO_REUSEPORT there may be several."""
        inodes = self._listening(address)
        unknown = [inode for inode in inodes if inode not in self._known]
        if unknown:
            if len(self._known) + len(unknown) > _MAX_KNOWN:
                self._known.clear()
                unknown = inodes
            self._find(unknown)
        return {self._known[inode] for inode in inodes}

    def _listening(self, address: Address) -> list[int]:
        """Sockets that a connection to there may reach: those with this very address, or else those with none."""
        exact: list[int] = []
        wild: list[int] = []
        for family, bits in ((socket.AF_INET, 32), (socket.AF_INET6, 128)):
            for port, at, inode in self._dump(family):
                if port != address.port:
                    continue
                value = int.from_bytes(at[: bits // 8], "big")
                there = Address(bits, value, port)
                if value == 0:
                    wild.append(inode)
                elif (there.bits, there.value) == (address.bits, address.value):
                    exact.append(inode)
        return exact or wild

    def _dump(self, family: int) -> list[tuple[int, bytes, int]]:
        """Port, address and number of each socket that listens. Not from /proc, which goes over all others as well."""
        self._question += 1
        question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0, _LISTENS)
        self._kernel.send(_HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, _ALL, self._question, 0) + question)
        found: list[tuple[int, bytes, int]] = []
        while True:
            answer = self._kernel.recv(_ANSWER_BYTES)
            place = 0
            while place < len(answer):
                size, kind, _, number, _ = _HEADER.unpack_from(answer, place)
                start, place = place + _HEADER.size, place + ((size + 3) & ~3)
                if number != self._question:
                    continue  # Left from a question that could not be read to its end.
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    raise OSError(errno.EOPNOTSUPP, "the kernel does not tell who listens")
                _, port, at, inode = _SOCKET.unpack_from(answer, start)
                found.append((int.from_bytes(port, "big"), at, inode))

    def _find(self, inodes: list[int]) -> None:
        """Asks every process below the service what it holds. One that cannot be asked may hold it."""
        names = {b"socket:[%d]" % inode: inode for inode in inodes}
        found: dict[int, str] = {}
        is_hidden = False
        for pid, owner in self._processes():
            try:
                held = _held_by(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue
            except OSError:
                is_hidden = is_hidden or owner == NEIGHBOUR
                continue
            for name in held & names.keys():
                # A socket that two apps hold is not the app's alone.
                if found.get(names[name]) != NEIGHBOUR:
                    found[names[name]] = owner
        for inode in inodes:
            self._known[inode] = found.get(inode) or (NEIGHBOUR if is_hidden else OTHER)

    def _processes(self) -> list[tuple[int, str]]:
        """The service and all below it, with whose they are."""
        parents: dict[int, int] = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                parents[int(name)] = _parent_of(name)
        found = [(self._service, SERVICE)]
        for pid in parents:
            above = pid
            while above > 1 and above not in (self._service, self._keeper):
                above = parents.get(above, 0)
            if above == self._keeper:
                found.append((pid, OWN))
            elif above == self._service and pid != self._service:
                found.append((pid, NEIGHBOUR))
        return found


def _held_by(pid: int) -> set[bytes]:
    """What its descriptors refer to."""
    held: set[bytes] = set()
    for name in os.listdir(b"/proc/%d/fd" % pid):
        try:
            held.add(os.readlink(b"/proc/%d/fd/%s" % (pid, name)))
        except FileNotFoundError:
            pass  # Closed meanwhile.
    return held


def _parent_of(pid: str) -> int:
    try:
        with open("/proc/%s/stat" % pid, "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
