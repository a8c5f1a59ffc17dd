"""Limits the memory of an app's processes where no control group is theirs alone."""

from __future__ import annotations

import itertools
import os
import re
import signal
import time
from collections.abc import Callable, Iterator

from millrace_worker import linux

from . import looks

#: Memory that programs share by name: the machine's, or an app's own.
_SHARED_MEMORY = "/dev/shm"
_BLOCK_BYTES = 512
#: Prefixes of the links of descriptors that hold a file in memory.
IN_MEMORY = ("/memfd:", _SHARED_MEMORY + "/")
#: Of one group in one look: an app can have millions. Each look begins at a random one.
_MAX_DESCRIPTORS = 10_000
_UNKNOWN = 1 << 62
_KILOBYTES = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)


class Unmapped:
    """The memory that the processes of one group can hold without mapping it."""

    def __init__(self, pids: list[int], segments: dict[str, tuple[int, int]]) -> None:
        own = set(pids)
        #: Device and bytes of files and segments, by a name that is the same in every process.
        self.files = {name: (0, size) for name, (creator, size) in segments.items() if creator in own}
        #: Bytes in the shared memory file systems of their own mount namespaces, by device.
        self.views: dict[int, int] = {}
        #: Shared memory that the processes have mapped; what two of them have mapped counts twice.
        self.mapped = 0
        #: Page tables.
        self.tables = 0
        machines = _device_of(_SHARED_MEMORY)
        folders: list[str] = []
        for pid in pids:
            threads = _names_in("/proc/%d/task" % pid)
            told = _status_of(pid, threads)
            self.mapped += told.get("RssShmem", 0)
            self.tables += told.get("VmPTE", 0)
            self._add_view(pid, machines)
            folders += descriptor_folders(pid)
        self._add_descriptors(folders)

    def _add_view(self, pid: int, machines: int | None) -> None:
        folder = "/proc/%d/root%s" % (pid, _SHARED_MEMORY)
        device = _device_of(folder)
        if device is None or device == machines or device in self.views:
            return
        try:
            told = os.statvfs(folder)
            self.views[device] = (told.f_blocks - told.f_bfree) * told.f_frsize
        except OSError:
            pass  # It has just ended.

    def _add_descriptors(self, folders: list[str]) -> None:
        for link in links_in(folders):
            try:
                # Only files in memory: `stat` of a file on a network may take forever.
                if os.readlink(link).startswith(IN_MEMORY):
                    told = os.stat(link)
                    self.files["%d:%d" % (told.st_dev, told.st_ino)] = (told.st_dev, told.st_blocks * _BLOCK_BYTES)
            except OSError:
                pass  # It was closed, its process has ended, or it is hidden.


def descriptor_folders(pid: int) -> list[str]:
    """Those of all threads: one can have descriptors that the others do not share."""
    return ["/proc/%d/task/%s/fd" % (pid, thread) for thread in _names_in("/proc/%d/task" % pid)]


def links_in(folders: list[str]) -> Iterator[str]:
    """The links of the descriptors in folders of /proc."""
    links = (folder + "/" + name for folder in _from_anywhere(folders) for name in _from_anywhere(_names_in(folder)))
    return itertools.islice(links, _MAX_DESCRIPTORS)


class Charge:
    """The bytes that a group is charged for."""

    def __init__(self, files: float, rest: float, tables: int) -> None:
        #: Files that its processes hold, perhaps mapped.
        self.files = files
        #: Its part of the memory that no process has open or mapped.
        self.rest = rest
        self.tables = tables

    @property
    def total(self) -> float:
        return self.files + self.rest + self.tables


def charge(groups: list[Unmapped]) -> list[Charge]:
    """Divides a file that several groups hold, such as forks of one template, between them; also what is in a view that
    they share and that none of them has open or mapped.
    """
    holders: dict[str, int] = {}
    sharers: dict[int, int] = {}
    rests: dict[int, int] = {}
    for each in groups:
        for device, used in each.views.items():
            sharers[device] = sharers.get(device, 0) + 1
            rests[device] = used
    for each in groups:
        for name, (device, size) in each.files.items():
            if name not in holders and device in rests:
                rests[device] -= size
            holders[name] = holders.get(name, 0) + 1
        for device in each.views:
            rests[device] -= each.mapped
    return [
        Charge(
            sum(size / holders[name] for name, (_, size) in each.files.items()),
            sum(max(0, rests[device]) / sharers[device] for device in each.views),
            each.tables,
        )
        for each in groups
    ]


def held_on_machine() -> int:
    """The memory of the whole machine that processes can hold without mapping it."""
    try:
        told = kilobytes("/proc/meminfo")
        return told["Shmem"] + told["PageTables"]
    except (OSError, KeyError):
        return _UNKNOWN


def segments() -> dict[str, tuple[int, int]]:
    """The System V segments of this namespace: creator and size in memory, by name."""
    found: dict[str, tuple[int, int]] = {}
    try:
        with open("/proc/sysvipc/shm", encoding="ascii") as rows:
            names = next(rows).split()
            for row in rows:
                told = dict(zip(names, row.split()))
                found["segment:" + told["shmid"]] = (int(told["cpid"]), int(told["rss"]))
    except (OSError, StopIteration, KeyError, ValueError):
        pass  # A kernel without them.
    return found


def kilobytes(file: str) -> dict[str, int]:
    """The values in kB of a kernel file, in bytes."""
    with open(file, encoding="ascii", errors="replace") as text:
        return {name: int(size) * 1024 for name, size in _KILOBYTES.findall(text.read())}


def _status_of(pid: int, threads: list[str]) -> dict[str, int]:
    """A process's memory from /proc. A thread that has ended tells nothing, even if it was the first."""
    for thread in threads:
        try:
            told = kilobytes("/proc/%d/task/%s/status" % (pid, thread))
        except OSError:
            continue  # It has just ended; others may not have.
        if "VmPTE" in told:
            return told
    return {}


def _device_of(folder: str) -> int | None:
    try:
        return os.stat(folder).st_dev
    except OSError:
        return None


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _from_anywhere(names: list[str]) -> list[str]:
    first = int.from_bytes(os.urandom(4), "big") % max(1, len(names))
    return names[first:] + names[:first]


#: The group of what was not forked for a replica: the template or the app's own server, with all that they started.
REST = ""

#: Flags of a task, and of its pending signals.
_PF_EXITING = 0x4
_SIGKILL_PENDING = 1 << (signal.SIGKILL - 1)
#: To find a thread that lives long enough to be asked.
_ATTEMPTS = 10
#: Below this share of the limit, unmapped memory is not counted.
_CLOSE_SHARE = 0.5
#: How long a count of unmapped memory is valid, unless the machine's grows: others may have freed as much.
_COUNT_SECONDS = 10.0


class Memory:
    """The processes below a keeper, in groups: each fork with what it started, and the rest.

    Forks of one template share most of their memory, so each is charged for its part (Pss); but that is measured only
    once the sum of resident memory is above the limit, which is much cheaper to know. Unmapped memory, such as files in
    `/dev/shm`, is counted only if the machine has so much of it that it could matter.
    """

    def __init__(self, max_bytes: int, top: int, forks: Callable[[], dict[str, int]]) -> None:
        self._max_bytes = max_bytes
        self._top = top
        #: The pids of forked replicas, by ticket.
        self._forks = forks
        #: The groups that have used too much.
        self.ended: set[str] = set()
        #: The last count of unmapped memory, its time, and how much the machine had then.
        self._charges: dict[str, Charge] = {}
        self._counted_at = -_COUNT_SECONDS
        self._counted_with = 0

    def look(self) -> float:
        """Ends each group that uses too much. Returns the largest share of the limit that one may use."""
        on_machine = held_on_machine()
        now = time.monotonic()
        if now - self._counted_at >= _COUNT_SECONDS:
            self._charges = {}
        most = 0.0
        for name, pids in self._groups().items():
            most = max(most, self._look_at(name, pids, now, on_machine))
        return most

    def _look_at(self, name: str, pids: list[int], now: float, on_machine: int) -> float:
        resident = sum(_resident(pid) for pid in pids)
        charged = self._charges.get(name)
        if charged is None:
            if resident + on_machine <= self._max_bytes * _CLOSE_SHARE:
                return resident / self._max_bytes
        else:
            share = (resident + charged.total + max(0, on_machine - self._counted_with)) / self._max_bytes
            if share <= 1:
                return share
        if self._counted_at != now or charged is None:
            self._count(now, on_machine)
            charged = self._charges.get(name, Charge(0, 0, 0))
        share = (resident + charged.total) / self._max_bytes
        if share > 1 and _used(pids, charged) > self._max_bytes:
            self._end(name)
        return share

    def _count(self, now: float, on_machine: int) -> None:
        made = segments()
        groups = self._groups()
        held = [Unmapped([pid for pid in pids if _resident(pid) > 0], made) for pids in groups.values()]
        self._charges = dict(zip(groups, charge(held)))
        self._counted_at, self._counted_with = now, on_machine

    def _groups(self) -> dict[str, list[int]]:
        if self._top != os.getpid() and linux.parent_of(self._top) != os.getpid():
            return {}  # It has ended, and its pid may be in use again.
        roots = {pid: ticket for ticket, pid in self._forks().items()}
        # The keeper above a fork adopts the daemons of that fork, and has no other children.
        adopters = {linux.parent_of(pid): ticket for pid, ticket in roots.items()}
        adopters.pop(self._top, None)
        names = {self._top: REST}
        found = [self._top]
        for pid in found:
            for child in looks.children(pid):
                if child not in names:  # Met twice if its parent has just ended.
                    names[child] = roots.get(child) or adopters.get(pid) or names[pid]
                    found.append(child)
        # This process is the agent: what it uses is not the app's.
        names.pop(os.getpid(), None)
        groups: dict[str, list[int]] = {}
        for pid, name in names.items():
            groups.setdefault(name, []).append(pid)
        return groups

    def _end(self, name: str) -> None:
        """Kills the group's current processes, except the keeper, which reports the end."""
        self.ended.add(name)
        for pid in self._groups().get(name, []):
            if pid != self._top:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass  # It has just ended.


def _resident(pid: int) -> int:
    """Resident bytes; 0 for a process that is ending: freeing a lot of memory takes a while."""
    try:
        words = looks.words("/proc/%d/stat" % pid)
        if words[0] in "ZX" and int(words[17]) > 1:
            return _resident_by_threads(pid)
        return _held(words)
    except (OSError, IndexError, ValueError):
        return 0  # It has just ended.


def _resident_by_threads(pid: int) -> int:
    """The same for a process whose first thread has ended. Too much if its other threads come and go so fast that none
    can be asked: an app does that only to hide.
    """
    for _ in range(_ATTEMPTS):
        for thread in os.listdir("/proc/%d/task" % pid):
            try:
                words = looks.words("/proc/%d/task/%s/stat" % (pid, thread))
            except OSError:
                continue  # It has just ended; the others have not.
            if words[0] not in "ZX":
                return _held(words)
    return _UNKNOWN if int(looks.words("/proc/%d/stat" % pid)[17]) > 1 else 0


def _held(words: list[str]) -> int:
    is_ending = int(words[6]) & _PF_EXITING or int(words[28]) & _SIGKILL_PENDING
    return 0 if is_ending else int(words[21]) * looks.PAGE


def _used(pids: list[int], charged: Charge) -> float:
    """What processes use, with what their group is charged for. Mapped files are in both; the larger number counts, so
    that no process is killed for memory that it does not use.
    """
    parts = [_proportional(pid) for pid in pids]
    in_files, other = (sum(each) for each in zip(*parts)) if parts else (0, 0)
    return other + max(in_files, charged.files) + charged.rest + charged.tables


def _proportional(pid: int) -> tuple[int, int]:
    """A process's part of mapped files in memory, and of its other memory. If it hides what it shares, all counts."""
    resident = _resident(pid)
    in_files = min(resident, _status_of(pid, _names_in("/proc/%d/task" % pid)).get("RssShmem", 0))
    try:
        told = kilobytes("/proc/%d/smaps_rollup" % pid)
        # `_resident` is less if the process is ending. Kernels before 5.3 have no Pss_Shmem.
        mapped = min(resident, told["Pss"])
        in_files = min(mapped, told.get("Pss_Shmem", in_files))
        return in_files, mapped - in_files
    except (OSError, KeyError):
        return in_files, resident - in_files
