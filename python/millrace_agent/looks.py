"""What the kernel tells of processes in this place."""

from __future__ import annotations

import os
import time

from millrace_worker import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_PROCESSES = 64
_MAX_THREADS = 64
#: Stopped by a signal or a tracer; dead and not yet buried.
_STOPPED = "TtZX"
_MAX_DEPTH = 64
_TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
#: Processor time of what this process had reaped before its app began.
_before = 0
_MEMORY_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


def look_at(pid: int, ancestor: int | None = None) -> dict[str, Any]:
    """What a process below that one uses, and whether it works. Nothing of any other: an app may tell any pid.

    `ancestor` is this process if it is not given.
    """
    top = linux.parent_of(pid)
    if top <= 0 or not _is_below(pid, os.getpid() if ancestor is None else ancestor):
        return {"usage": None, "vitals": None}
    return {"usage": _usage_below(top), "vitals": _vitals_of(pid)}


def forget_reaped() -> None:
    """What this process has reaped until now was not the app's."""
    global _before
    _, _before, _ = _stat(os.getpid())


def _usage_below(top: int) -> dict[str, int]:
    """Of all below a keeper, with the time of those that it has reaped. Its own time is not the app's."""
    _, cpu_ticks, _ = _stat(top)
    cpu_ticks -= _before if top == os.getpid() else 0
    resident = 0
    for each in below(top):
        own, reaped, pages = _stat(each)
        cpu_ticks += own + reaped
        resident += pages
    return {"cpu_ms": round(cpu_ticks * 1000 / _TICKS), "resident_bytes": resident * PAGE}


def below(top: int, most: int = _MAX_PROCESSES) -> list[int]:
    """The processes that one has started, and theirs, the nearest first; of very many, some."""
    found = children(top, _MAX_THREADS)
    for at, each in enumerate(found):
        if at >= most:
            break
        found += children(each, _MAX_THREADS)
    return found[:most]


def _vitals_of(pid: int) -> dict[str, Any] | None:
    try:
        at_ms = round(time.monotonic() * 1000)
        whole = words("/proc/%d/stat" % pid)
        is_stopped = whole[0] in _STOPPED
        threads = [] if is_stopped else _threads_of(pid, whole)
    except (OSError, ValueError, IndexError):
        return None  # It has just ended.
    return {"at_ms": at_ms, "is_stopped": is_stopped, "threads": threads}


def _threads_of(pid: int, whole: list[str]) -> list[list[Any]]:
    """Each by itself if they are few, else all as one."""
    if int(whole[17]) > _MAX_THREADS:
        return [_thread(0, whole)]
    found: list[list[Any]] = []
    # There may be more by now.
    for each in os.listdir("/proc/%d/task" % pid)[:_MAX_THREADS]:
        try:
            found.append(_thread(int(each), words("/proc/%d/task/%s/stat" % (pid, each))))
        except (OSError, IndexError):
            pass  # It has just ended, and the others have not.
    return found


def _thread(name: int, told: list[str]) -> list[Any]:
    used_ms = round((int(told[11]) + int(told[12])) * 1000 / _TICKS)
    return [name, used_ms, told[0] == "R"]


def times_out_of_memory() -> int:
    """How often the kernel has ended a process of this place because its memory had run out."""
    for file in _MEMORY_EVENTS:
        try:
            with open(file, encoding="ascii") as events:
                counts = dict(line.split() for line in events)
                return int(counts.get("oom_kill", 0))
        except (OSError, ValueError):
            pass
    return 0


def _is_below(pid: int, ancestor: int) -> bool:
    for _ in range(_MAX_DEPTH):
        pid = linux.parent_of(pid)
        if pid == ancestor:
            return True
        if pid <= 1:
            return False
    return False


def _stat(pid: int) -> tuple[int, int, int]:
    """Its own processor time, that of the children that it has reaped, and its pages in memory."""
    try:
        told = words("/proc/%d/stat" % pid)
        return int(told[11]) + int(told[12]), int(told[13]) + int(told[14]), int(told[21])
    except (OSError, IndexError, ValueError):
        return 0, 0, 0  # It has just ended.


def words(file: str) -> list[str]:
    """What the kernel tells of a process or a thread behind its name, which is the app's own."""
    with open(file, encoding="utf-8", errors="replace") as stat:
        return stat.read().rpartition(")")[2].split()


def children(pid: int, max_threads: int | None = None) -> list[int]:
    """Those of all its threads, or of so many of them: a process belongs to the thread that started it."""
    try:
        threads = os.listdir("/proc/%d/task" % pid)[:max_threads]
    except OSError:
        return []  # It has just ended.
    found: list[int] = []
    for thread in threads:
        try:
            with open("/proc/%d/task/%s/children" % (pid, thread), encoding="ascii") as listing:
                found += [int(word) for word in listing.read().split()]
        except OSError:
            pass  # It has just ended. Its children are the other threads' now, or will be met at the next look.
    return found
