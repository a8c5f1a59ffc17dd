"""Finds out who listens on a port of this machine: the app itself, another app, the service, or another program.

Each keeper notes its app's listening sockets in a file in memory, at a fixed descriptor where other keepers find it.
Apps could hide the descriptors of their own processes. A keeper also briefly holds copies of its app's descriptors,
whose content the app chooses: they never get that number.
"""

from __future__ import annotations

import errno
import os
import socket
import struct

from millrace_worker import linux

from .addresses import Address

OWN, NEIGHBOUR, SERVICE, OTHER = "own", "neighbour", "service", "other"

# NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, the same with NLM_F_DUMP.
_DIAGNOSIS, _BY_FAMILY, _ONE, _ALL = 4, 20, 0x1, 0x301
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
_FAILURE = struct.Struct("=i")
#: Family, protocol, states; port and address of the socket; an empty peer; the interface; no cookie.
_QUESTION = struct.Struct("=BBxxI2s2x16s16xI8s")
_NO_COOKIE = b"\xff" * 8
#: Family, port, address and inode.
_SOCKET = struct.Struct("=B3x2s2x16s44xI")
_LISTENS = 1 << 10
_ANSWER_BYTES = 1 << 16
#: Owners that are remembered; beyond that, all are forgotten.
_MAX_KNOWN = 1024
#: Noted sockets, beyond which those that no longer listen are removed.
_MAX_NOTED = 1024
_NUMBER = struct.Struct("=Q")
_NOTES = "millrace-listeners"
_NOTES_LINK = b"/memfd:millrace-listeners (deleted)"
#: The descriptor of a keeper's notes while its app runs. Other descriptors get the lowest free number, never this one.
_NOTES_AT = 200


class Listeners:
    """Looks at the kernel's tables and at the notes of other keepers."""

    def __init__(self, service: int) -> None:
        self._service = service
        self._notes = _Notes()
        #: A socket keeps its number and its owner.
        self._known: dict[int, str] = {}
        self._question = 0
        self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _DIAGNOSIS)
        #: The interface for everything that this machine sends to itself.
        self._loopback = socket.if_nametoindex("lo")

    def note(self, connection: socket.socket) -> None:
        """Notes a socket as the app's own, visible to other keepers."""
        if self._notes.is_full():
            families = (socket.AF_INET, socket.AF_INET6)
            self._notes.keep_only({inode for family in families for _, _, inode in self._dump(family)})
        self._notes.add(os.fstat(connection.fileno()).st_ino)

    def has_own(self, port: int) -> bool:
        """Whether the app itself listens on that port, at any address."""
        found = (each for family in (socket.AF_INET, socket.AF_INET6) for each in self._dump(family))
        return any(at == port and inode in self._notes.inodes for at, _, inode in found)

    def at(self, address: Address) -> set[str]:
        """The owners of the sockets that listen there; with SO_REUSEPORT there may be several."""
        inodes = self._listening(address)
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        unknown = [inode for inode in inodes if inode not in self._known]
        if not unknown:
            return {self._known[inode] for inode in inodes}
        found, is_sure = self._owners()
        verdicts = {inode: found.get(inode, OTHER if is_sure else NEIGHBOUR) for inode in unknown}
        if is_sure:
            self._known.update(verdicts)
        return {self._known.get(inode) or verdicts[inode] for inode in inodes}

    def _listening(self, address: Address) -> list[int]:
        """The sockets that a connection may reach: those with exactly this address, or else those with none.

        The kernel's list may lack a socket while others come and go, which an app can provoke. So the kernel is also
        asked for the one that a connection would reach.
        """
        exact: list[int] = []
        wild: list[int] = []
        for family, bits in ((socket.AF_INET, 32), (socket.AF_INET6, 128)):
            for port, at, inode in self._dump(family):
                there = Address(bits, int.from_bytes(at[: bits // 8], "big"), port)
                if port == address.port and there.value == 0:
                    wild.append(inode)
                elif port == address.port and (there.bits, there.value) == (address.bits, address.value):
                    exact.append(inode)
        family, packed = address.packed()
        reached = [inode for _, _, inode in self._ask(_ONE, family, address.port, packed)]
        return [*dict.fromkeys((exact or wild) + reached)]

    def _dump(self, family: int) -> list[tuple[int, bytes, int]]:
        """Port, address and inode of each listening socket. /proc would be slower: it visits all sockets."""
        return self._ask(_ALL, family, 0, b"")

    def _ask(self, flags: int, family: int, port: int, at: bytes) -> list[tuple[int, bytes, int]]:
        self._question += 1
        place = port.to_bytes(2, "big"), at, self._loopback if flags == _ONE else 0, _NO_COOKIE
        question = _QUESTION.pack(family, socket.IPPROTO_TCP, _LISTENS, *place)
        self._kernel.send(_HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, flags, self._question, 0) + question)
        found: list[tuple[int, bytes, int]] = []
        while True:
            answer = self._kernel.recv(_ANSWER_BYTES)
            place = 0
            while place < len(answer):
                size, kind, _, number, _ = _HEADER.unpack_from(answer, place)
                start, place = place + _HEADER.size, place + ((size + 3) & ~3)
                if number != self._question:
                    continue  # Left from an earlier question that failed.
                if kind == _DONE:
                    return found
                if kind == _ERROR:
                    if flags == _ONE and _FAILURE.unpack_from(answer, start)[0] == -errno.ENOENT:
                        return found
                    raise OSError(errno.EOPNOTSUPP, "the kernel does not tell who listens")
                _, number_, there, inode = _SOCKET.unpack_from(answer, start)
                found.append((int.from_bytes(number_, "big"), there, inode))
                if flags == _ONE:
                    return found

    def _owners(self) -> tuple[dict[int, str], bool]:
        """The owner of each noted socket, and whether all notes could be read."""
        found: dict[int, str] = {}
        is_sure = True
        for pid in _children_of(self._service):
            if pid == os.getpid():
                continue
            try:
                found.update(dict.fromkeys(_noted_by(pid), NEIGHBOUR))
            except OSError:
                is_sure = is_sure and not _is_keeper(pid)
        try:
            held = _links_of(self._service).values() if self._service else ()
            found.update({int(link[8:-1]): SERVICE for link in held if link.startswith(b"socket:[")})
        except OSError:
            is_sure = False
        # A socket that another keeper has noted too is not the app's alone.
        own = (inode for inode in self._notes.inodes if inode not in found)
        return {**found, **dict.fromkeys(own, OWN)}, is_sure


class _Notes:
    """An app's listening sockets, for other keepers to read while this process lives."""

    def __init__(self) -> None:
        self.inodes: set[int] = set()
        self._most = _MAX_NOTED
        self._replace()

    def add(self, inode: int) -> None:
        if inode not in self.inodes:
            os.write(_NOTES_AT, _NUMBER.pack(inode))
            self.inodes.add(inode)

    def is_full(self) -> bool:
        return len(self.inodes) >= self._most

    def keep_only(self, living: set[int]) -> None:
        """Removes all other sockets."""
        self.inodes &= living
        self._most = 2 * len(self.inodes) + _MAX_NOTED
        self._replace()

    def _replace(self) -> None:
        """Replaces the file at once, so that a reader sees all of the old or of the new one."""
        file = os.memfd_create(_NOTES)
        try:
            os.write(file, b"".join(map(_NUMBER.pack, self.inodes)))
            os.dup2(file, _NOTES_AT, inheritable=False)
        finally:
            os.close(file)


def _noted_by(pid: int) -> set[int]:
    """The sockets that a process has noted; none if it is no keeper. Raises OSError if they cannot be read."""
    place = "/proc/%d/fd/%d" % (pid, _NOTES_AT)
    try:
        if os.readlink(os.fsencode(place)) != _NOTES_LINK:
            return set()
        packed = _read(place)
    except FileNotFoundError:
        return set()
    whole = packed[: len(packed) - len(packed) % _NUMBER.size]
    return {inode for (inode,) in _NUMBER.iter_unpack(whole)}


def _links_of(pid: int) -> dict[str, bytes]:
    """The links of a process's descriptors."""
    links: dict[str, bytes] = {}
    for number in os.listdir("/proc/%d/fd" % pid):
        try:
            links[number] = os.readlink(b"/proc/%d/fd/%s" % (pid, number.encode()))
        except FileNotFoundError:
            pass  # Closed meanwhile.
    return links


def _children_of(service: int) -> list[int]:
    """The processes that the service has started: keepers, and its helpers for storage."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()] if service else []
    return [pid for pid in pids if linux.parent_of(pid) == service]


def _is_keeper(pid: int) -> bool:
    """Whether a child of the service may be a keeper; a process that has ended has no command line."""
    try:
        words = _read("/proc/%d/cmdline" % pid).split(b"\0")
    except OSError:
        return False
    return words[1:4] == [b"-I", b"-S", b"-c"] and b"millrace_agent.local" in words[4]


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
