"""The few system calls that Python's standard library does not name."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    try:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError, ImportError):
        # Not Linux, or no ctypes: the control connection's end is then the only sign of the owner's death.
        pass


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Asks for a signal when the parent dies; acts at once if it died before the asking."""
    _prctl(_PR_SET_PDEATHSIG, int(number))
    # 0 is a parent outside this process's namespace: the agent, which the first process there asks for itself.
    if os.getppid() not in (0, parent):
        os.kill(os.getpid(), number)


def adopt_orphans() -> None:
    """Makes this process the parent of every descendant whose own parent dies, daemons included."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def keep_private() -> None:
    """No other process of the same user can look into the memory of this one."""
    _prctl(_PR_SET_DUMPABLE, 0)


def close_inherited(first: int) -> None:
    """Closes every descriptor from that number on, such as those that the service's own starter left open."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) >= first:
            try:
                os.close(int(name))
            except OSError:
                pass  # The listing's own.


def lead_nowhere(*descriptors: int) -> None:
    """Nothing comes from these descriptors, and what is written to them is lost."""
    null = os.open(os.devnull, os.O_RDWR)
    for each in descriptors:
        os.dup2(null, each)
    if null not in descriptors:
        os.close(null)


def children() -> Iterator[int]:
    try:
        with open("/proc/self/task/%d/children" % os.getpid(), encoding="ascii") as listing:
            yield from (int(word) for word in listing.read().split())
    except FileNotFoundError:
        # A kernel without CONFIG_PROC_CHILDREN: look at every process.
        mine = os.getpid()
        for entry in os.listdir("/proc"):
            if entry.isdigit() and parent_of(int(entry)) == mine:
                yield int(entry)


def children_of(pid: int) -> list[int]:
    """The children that a process's first thread has started; none if it has ended."""
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as listing:
            return [int(word) for word in listing.read().split()]
    except (OSError, ValueError):
        return []


def parent_of(pid: int) -> int:
    """The pid of a process's parent; -1 when the process is gone."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return -1
