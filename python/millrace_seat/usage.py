"""What a replica uses, as the kernel tells it."""

from __future__ import annotations

import os

from millrace_worker import linux

_MAX_PROCESSES = 64
_MAX_DEPTH = 64
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MEMORY_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


def usage_of(pid: int) -> dict[str, int] | None:
    """Of a process below this one, with all below its keeper; None for any other: an app may tell what it likes."""
    top = linux.parent_of(pid)
    if top <= 1 or not _is_below_us(pid):
        return None
    cpu_ticks, _ = _stat(top)
    resident = 0
    found = _children(top)
    for at, each in enumerate(found):
        if at >= _MAX_PROCESSES:
            break
        ticks, pages = _stat(each)
        cpu_ticks += ticks
        resident += pages
        found += _children(each)
    return {"cpu_ms": round(cpu_ticks * 1000 / _TICKS), "resident_bytes": resident * _PAGE}


def times_out_of_memory() -> int:
    """How often the kernel has ended a process of this place because its memory had run out."""
    for file in _MEMORY_EVENTS:
        try:
            with open(file, encoding="ascii") as events:
                words = dict(line.split() for line in events)
                return int(words.get("oom_kill", 0))
        except (OSError, ValueError):
            pass
    return 0


def _is_below_us(pid: int) -> bool:
    for _ in range(_MAX_DEPTH):
        pid = linux.parent_of(pid)
        if pid == os.getpid():
            return True
        if pid <= 1:
            return False
    return False


def _stat(pid: int) -> tuple[int, int]:
    """Processor time, of those that it has buried too, and pages in memory."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as stat:
            words = stat.read().rpartition(")")[2].split()
        return sum(int(word) for word in words[11:15]), int(words[21])
    except (OSError, IndexError, ValueError):
        return 0, 0  # It has just ended.


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir("/proc/%d/task" % pid)[:_MAX_PROCESSES]:
            with open("/proc/%d/task/%s/children" % (pid, thread), encoding="ascii") as listing:
                found += [int(word) for word in listing.read().split()]
    except (OSError, ValueError):
        pass
    return found
