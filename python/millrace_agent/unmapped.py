"""Memory that processes hold whether or not they have mapped it: files in memory, System V segments, page tables."""

from __future__ import annotations

import os
import re

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


def on_machine() -> int:
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


def shared_resident(pid: int) -> int:
    """What of a process's mapped memory is in files in memory."""
    return _status_of(pid, _names_in("/proc/%d/task" % pid)).get("RssShmem", 0)


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
    """All of them, from a random one on."""
    first = int.from_bytes(os.urandom(4), "big") % max(1, len(names))
    return names[first:] + names[:first]
