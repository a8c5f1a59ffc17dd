"""Reads the usage and the state of processes from /proc."""

from __future__ import annotations

import os
import time

from millrace_worker import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_PROCESSES = 64
_MAX_THREADS = 64
#: Stopped by a signal or a tracer, or a zombie.
_STOPPED = "TtZX"
_MAX_DEPTH = 64
_TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
#: Processor time of processes that were reaped before the app began.
_before = 0
_MEMORY_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


def look_at(pid: int, ancestor: int | None = None) -> dict[str, Any]:
    """The usage and vitals of a process below `ancestor` (default: this one). Nothing for any other: an app may send
    any pid.
    """
    top = linux.parent_of(pid)
    if top <= 0 or not _is_below(pid, os.getpid() if ancestor is None else ancestor):
        return {"usage": None, "vitals": None}
    return {"usage": _usage_below(top), "vitals": _vitals_of(pid)}


def forget_reaped() -> None:
    """Does not count the processor time of processes reaped so far: they were not the app's."""
    global _before
    _, _before, _ = _stat(os.getpid())


def _usage_below(top: int) -> dict[str, int]:
    """The usage of all processes below a keeper, with those that it has reaped, but without its own."""
    _, cpu_ticks, _ = _stat(top)
    cpu_ticks -= _before if top == os.getpid() else 0
    resident = 0
    for each in below(top):
        own, reaped, pages = _stat(each)
        cpu_ticks += own + reaped
        resident += pages
    return {"cpu_ms": round(cpu_ticks * 1000 / _TICKS), "resident_bytes": resident * PAGE}


def below(top: int, most: int = _MAX_PROCESSES, max_threads: int | None = _MAX_THREADS) -> list[int]:
    """The descendants of a process, nearest first; at most that many, and those of so many threads of each."""
    found = children(top, max_threads)
    for at, each in enumerate(found):
        if at >= most:
            break
        found += children(each, max_threads)
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
    """Each thread by itself if they are few, else all as one."""
    if int(whole[17]) > _MAX_THREADS:
        return [_thread(0, whole)]
    found: list[list[Any]] = []
    for each in os.listdir("/proc/%d/task" % pid)[:_MAX_THREADS]:
        try:
            found.append(_thread(int(each), words("/proc/%d/task/%s/stat" % (pid, each))))
        except (OSError, IndexError):
            pass  # It has just ended; the others have not.
    return found


def _thread(name: int, told: list[str]) -> list[Any]:
    used_ms = round((int(told[11]) + int(told[12])) * 1000 / _TICKS)
    return [name, used_ms, told[0] == "R"]


def times_out_of_memory() -> int:
    """How often the kernel has killed a process of this control group because memory ran out."""
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
    """A process's own processor time, that of its reaped children, and its pages in memory."""
    try:
        told = words("/proc/%d/stat" % pid)
        return int(told[11]) + int(told[12]), int(told[13]) + int(told[14]), int(told[21])
    except (OSError, IndexError, ValueError):
        return 0, 0, 0  # It has just ended.


def words(file: str) -> list[str]:
    """The fields of a `stat` file after the process's name, which the app chooses."""
    with open(file, encoding="utf-8", errors="replace") as stat:
        return stat.read().rpartition(")")[2].split()


def children(pid: int, max_threads: int | None = None) -> list[int]:
    """The children of all threads of a process, or of that many: a child belongs to the thread that started it."""
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
            pass  # It has just ended. Its children have moved to another thread, and are found with the next look.
    return found
