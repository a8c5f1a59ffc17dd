"""Who listens at a port of this machine: the app itself, another app of the service, or anybody else.

Each keeper notes the sockets that its app listens with, in a file in memory that the keepers of other apps find among
its descriptors. Processes of apps are not asked: they could hide what they hold.
"""

from __future__ import annotations

import errno
import os
import socket
import struct

from millrace_worker import linux

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
#: Sockets that a keeper notes before it leaves out those that no longer listen.
_MAX_NOTED = 1024
_NUMBER = struct.Struct("=Q")
_NOTES = "millrace-listeners"
_NOTES_LINK = b"/memfd:millrace-listeners (deleted)"
#: How often the notes of a keeper are looked for again that has just replaced them.
_ATTEMPTS = 3


class Listeners:
    """Looks at the kernel's tables and at the notes of other keepers."""

    def __init__(self, service: int) -> None:
        self._service = service
        self._notes = _Notes()
        #: A socket keeps its number and its owner.
        self._known: dict[int, str] = {}
        self._question = 0
        self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _DIAGNOSIS)

    def note(self, connection: socket.socket) -> None:
        """Remembers a socket as the app's own; other keepers can read that from now on."""
        if self._notes.is_full():
            families = (socket.AF_INET, socket.AF_INET6)
            self._notes.keep_only({inode for family in families for _, _, inode in self._dump(family)})
        self._notes.add(os.fstat(connection.fileno()).st_ino)

    def at(self, address: Address) -> set[str]:
        """Whose sockets listen there; with SO_REUSEPORT there may be several."""
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
        """Sockets that a connection to there may reach: those with this very address, or else those with none."""
        exact: list[int] = []
        wild: list[int] = []
        for family, bits in ((socket.AF_INET, 32), (socket.AF_INET6, 128)):
            for port, at, inode in self._dump(family):
                if port != address.port:
                    continue
                value = int.from_bytes(at[: bits // 8], "big")
                there = Address(bits, value, port)
                if there.value == 0:
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

    def _owners(self) -> tuple[dict[int, str], bool]:
        """Whose each noted socket is, and whether all notes could be read."""
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
        # Noted by another keeper too, a socket is not the app's alone.
        own = (inode for inode in self._notes.inodes if inode not in found)
        return {**found, **dict.fromkeys(own, OWN)}, is_sure


class _Notes:
    """The sockets that an app listens with, for other keepers to read. They are gone with this process."""

    def __init__(self) -> None:
        self.inodes: set[int] = set()
        self._most = _MAX_NOTED
        self._file = os.memfd_create(_NOTES)

    def add(self, inode: int) -> None:
        if inode not in self.inodes:
            os.write(self._file, _NUMBER.pack(inode))
            self.inodes.add(inode)

    def is_full(self) -> bool:
        return len(self.inodes) >= self._most

    def keep_only(self, living: set[int]) -> None:
        """Leaves out the others. A new file takes the place of the old one, so that a reader finds all of either."""
        self.inodes &= living
        self._most = 2 * len(self.inodes) + _MAX_NOTED
        before, self._file = self._file, os.memfd_create(_NOTES)
        os.write(self._file, b"".join(map(_NUMBER.pack, self.inodes)))
        os.close(before)


def _noted_by(pid: int) -> set[int]:
    """The sockets that another keeper has noted; none if that process is no keeper. Raises if it cannot be read."""
    for _ in range(_ATTEMPTS):
        links = _links_of(pid)
        places = [number for number, link in links.items() if link == _NOTES_LINK]
        if not places:
            return set()
        try:
            # While one file takes the place of another there are two, and together they have all.
            packed = [_read("/proc/%d/fd/%s" % (pid, number)) for number in places]
        except FileNotFoundError:
            continue
        whole = (each[: len(each) - len(each) % _NUMBER.size] for each in packed)
        return {inode for each in whole for (inode,) in _NUMBER.iter_unpack(each)}
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _links_of(pid: int) -> dict[str, bytes]:
    """What the descriptors of a process refer to."""
    links: dict[str, bytes] = {}
    for number in os.listdir("/proc/%d/fd" % pid):
        try:
            links[number] = os.readlink(b"/proc/%d/fd/%s" % (pid, number.encode()))
        except FileNotFoundError:
            pass  # Closed meanwhile.
    return links


def _children_of(service: int) -> list[int]:
    """The processes that the service has started: keepers, and those that look into storage."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()] if service else []
    return [pid for pid in pids if linux.parent_of(pid) == service]


def _is_keeper(pid: int) -> bool:
    """Whether a process that the service has started may be a keeper; one that has ended has no command line."""
    try:
        words = _read("/proc/%d/cmdline" % pid).split(b"\0")
    except OSError:
        return False
    return words[1:4] == [b"-I", b"-S", b"-c"] and b"millrace_walls.start" in words[4]


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
