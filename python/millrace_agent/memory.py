"""How much memory the processes of an app use, and the end of those that use more than they may: where there are no
control groups, and in seats, where those of an agent hold others too.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable

from millrace_worker import linux

from . import looks

#: Where programs keep memory that they share by name: the machine's, or an app's own.
_SHARED_MEMORY = "/dev/shm"
_BLOCK_BYTES = 512
#: How the links of descriptors begin that hold a file in memory.
_IN_MEMORY = ("/memfd:", _SHARED_MEMORY + "/")
#: Of one group in one look: an app can have millions. If it has more, each look sees others.
_MAX_DESCRIPTORS = 10_000
_UNKNOWN = 1 << 62
_KILOBYTES = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)


class Unmapped:
    """What the processes of one group hold."""

    def __init__(self, pids: list[int], segments: dict[str, tuple[int, int]]) -> None:
        #: Bytes of files and segments with their device, by a name that is the same for each process that holds them.
        self.files: dict[str, tuple[int, int]] = {}
        #: The bytes in file systems for shared memory that the machine does not see, by device.
        self.views: dict[int, int] = {}
        #: What of such memory the processes have mapped; what two of them have mapped counts twice.
        self.mapped = 0
        #: What the kernel needs to map the memory of the processes.
        self.tables = 0
        own = set(pids)
        self.files.update({name: (0, size) for name, (creator, size) in segments.items() if creator in own})
        machines = _device_of(_SHARED_MEMORY)
        folders: list[str] = []
        for pid in pids:
            # Each of its own: a thread can have descriptors that the others do not share.
            threads = _names_in("/proc/%d/task" % pid)
            told = _status_of(pid, threads)
            self.mapped += told.get("RssShmem", 0)
            self.tables += told.get("VmPTE", 0)
            self._add_view(pid, machines)
            folders += ["/proc/%d/task/%s/fd" % (pid, thread) for thread in threads]
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
        left = _MAX_DESCRIPTORS
        for folder in _from_anywhere(folders):
            for name in _from_anywhere(_names_in(folder)):
                if left == 0:
                    return
                left -= 1
                self._add_descriptor(folder + "/" + name)

    def _add_descriptor(self, link: str) -> None:
        try:
            # Nothing else is looked at: to ask for a file on a network may take forever.
            if os.readlink(link).startswith(_IN_MEMORY):
                told = os.stat(link)
                name = "%d:%d" % (told.st_dev, told.st_ino)
                self.files[name] = (told.st_dev, told.st_blocks * _BLOCK_BYTES)
        except OSError:
            pass  # It was closed, its process has ended, or it is hidden.


class Charge:
    """What a group is charged for, in bytes."""

    def __init__(self, files: float, rest: float, tables: int) -> None:
        #: Files that its processes hold, which they may have mapped.
        self.files = files
        #: Its part of what nothing has open or mapped.
        self.rest = rest
        self.tables = tables

    @property
    def total(self) -> float:
        return self.files + self.rest + self.tables


def charge(groups: list[Unmapped]) -> list[Charge]:
    """Of a file that more than one group holds, as forks inherit it from their template, each is charged for a part.

    And so of what is in a view that they share and none of them has open or mapped.
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
    """How much memory all processes of the machine together can hold without having it mapped."""
    try:
        told = kilobytes("/proc/meminfo")
        return told["Shmem"] + told["PageTables"]
    except (OSError, KeyError):
        return _UNKNOWN


def segments() -> dict[str, tuple[int, int]]:
    """The System V segments of this namespace, each with the process that has made it, and its size in memory."""
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
    """The lines of a file of the kernel's that name kilobytes, in bytes."""
    with open(file, encoding="ascii", errors="replace") as text:
        return {name: int(size) * 1024 for name, size in _KILOBYTES.findall(text.read())}


def _status_of(pid: int, threads: list[str]) -> dict[str, int]:
    """What the kernel tells of a process's memory. Its first thread knows nothing of it if it ended before others."""
    for thread in threads:
        try:
            told = kilobytes("/proc/%d/task/%s/status" % (pid, thread))
        except OSError:
            continue  # It has just ended, and others may not have.
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


#: What was not forked for a replica: the template or the app's own server, with all that they started.
REST = ""

#: Of the kernel's flags of a task, and of its pending signals.
_PF_EXITING = 0x4
_SIGKILL_PENDING = 1 << (signal.SIGKILL - 1)
#: To find a thread that lives long enough to be asked.
_ATTEMPTS = 10
#: Of the limit: below it, what all processes of the machine could hold unmapped is not counted.
_CLOSE_SHARE = 0.5
#: How long a count of that is valid, unless the machine's grows: others may have freed as much.
_COUNT_SECONDS = 10.0


class Memory:
    """What is below a keeper, in groups: each fork with what it started, and the rest.

    What processes share counts in parts (Pss), as forks of one template share most of theirs; but only once the sum
    that counts it in full is above the limit, which is much cheaper to know. Memory that can be held without being
    mapped, such as files in `/dev/shm`, is counted only if there is so much of it on the machine that it could matter.
    """

    def __init__(self, max_bytes: int, top: int, forks: Callable[[], dict[str, int]]) -> None:
        self._max_bytes = max_bytes
        self._top = top
        #: The pids of replicas that were forked, by ticket.
        self._forks = forks
        #: Those groups that have used too much.
        self.ended: set[str] = set()
        #: What groups held unmapped when that was last counted, and when, and how much the machine had then.
        self._charges: dict[str, Charge] = {}
        self._counted_at = -_COUNT_SECONDS
        self._counted_with = 0

    def look(self) -> float:
        """Ends each group that uses too much. Gives the largest share of the limit that one may use."""
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
            return {}  # It has ended, and its number may be another's by now.
        roots = {pid: ticket for ticket, pid in self._forks().items()}
        # The keeper above a fork adopts the daemons of that fork, and has no other children.
        adopters = {linux.parent_of(pid): ticket for pid, ticket in roots.items()}
        adopters.pop(self._top, None)
        # A process whose parent ends meanwhile may be met twice.
        names = {self._top: REST}
        found = [self._top]
        for pid in found:
            for child in looks.children(pid):
                if child not in names:
                    names[child] = roots.get(child) or adopters.get(pid) or names[pid]
                    found.append(child)
        # This process is the agent: what it uses is not the app's.
        names.pop(os.getpid(), None)
        groups: dict[str, list[int]] = {}
        for pid, name in names.items():
            groups.setdefault(name, []).append(pid)
        return groups

    def _end(self, name: str) -> None:
        """As it is now: what was found before may be gone. The keeper lives, and tells how what it kept has ended."""
        self.ended.add(name)
        for pid in self._groups().get(name, []):
            if pid != self._top:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass  # It has just ended.


def _resident(pid: int) -> int:
    """Bytes; none of a process that is ending: freeing a lot of memory takes a while."""
    try:
        words = looks.words("/proc/%d/stat" % pid)
        if words[0] in "ZX" and int(words[17]) > 1:
            return _resident_by_threads(pid)
        return _held(words)
    except (OSError, IndexError, ValueError):
        return 0  # It has just ended.


def _resident_by_threads(pid: int) -> int:
    """Of a process whose first thread has ended, of which the kernel tells nothing then.

    Too much if its other threads come and go so fast that none can be asked: an app does that only to hide.
    """
    for _ in range(_ATTEMPTS):
        for thread in os.listdir("/proc/%d/task" % pid):
            try:
                words = looks.words("/proc/%d/task/%s/stat" % (pid, thread))
            except OSError:
                continue  # It has just ended, and the others have not.
            if words[0] not in "ZX":
                return _held(words)
    return _UNKNOWN if int(looks.words("/proc/%d/stat" % pid)[17]) > 1 else 0


def _held(words: list[str]) -> int:
    is_ending = int(words[6]) & _PF_EXITING or int(words[28]) & _SIGKILL_PENDING
    return 0 if is_ending else int(words[21]) * looks.PAGE


def _used(pids: list[int], charged: Charge) -> float:
    """What processes use, with what their group is charged for.

    Files that they have mapped are among both: the larger counts, so that none ends for memory that it does not use.
    """
    parts = [_proportional(pid) for pid in pids]
    in_files, other = (sum(each) for each in zip(*parts)) if parts else (0, 0)
    return other + max(in_files, charged.files) + charged.rest + charged.tables


def _proportional(pid: int) -> tuple[int, int]:
    """What it has mapped of files in memory, and the rest of what it has.

    All of it, where the kernel does not tell: an app can hide what it shares, and then nothing is shared.
    """
    resident = _resident(pid)
    in_files = min(resident, _status_of(pid, _names_in("/proc/%d/task" % pid)).get("RssShmem", 0))
    try:
        told = kilobytes("/proc/%d/smaps_rollup" % pid)
        # Of one that is ending the kernel still tells all. Kernels before 5.3 do not tell the two apart.
        mapped = min(resident, told["Pss"])
        in_files = min(mapped, told.get("Pss_Shmem", in_files))
        return in_files, mapped - in_files
    except (OSError, KeyError):
        return in_files, resident - in_files
