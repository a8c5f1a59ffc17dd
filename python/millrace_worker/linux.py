"""System calls that Python's standard library lacks, and relations of processes."""

from __future__ import annotations

import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36


def _prctl(option: int, value: int) -> None:
    try:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError, ImportError):
        pass  # Not Linux, or no ctypes: only the end of the control connection tells that the owner has died.


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Has the kernel send a signal when the parent dies; sends it at once if the parent has died already."""
    _prctl(_PR_SET_PDEATHSIG, int(number))
    # 0 is a parent outside this process's namespace, the agent, which that namespace's first process checks itself.
    if os.getppid() not in (0, parent):
        os.kill(os.getpid(), number)


def adopt_orphans() -> None:
    """Makes this process the parent of every descendant whose own parent dies, daemons included."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def keep_private() -> None:
    """Prevents other processes of the same user from reading this one's memory."""
    _prctl(_PR_SET_DUMPABLE, 0)


def close_inherited(first: int) -> None:
    """Closes every descriptor from that number on, such as those that the service inherited."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) >= first:
            try:
                os.close(int(name))
            except OSError:
                pass  # The listing's own.


def lead_nowhere(*descriptors: int) -> None:
    """Redirects these descriptors to /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for each in descriptors:
        os.dup2(null, each)
    if null not in descriptors:
        os.close(null)


def children_of(pid: int) -> list[int]:
    """The children that a process's first thread has started; none if it has ended."""
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as listing:
            return [int(word) for word in listing.read().split()]
    except FileNotFoundError:
        # It has ended, or the kernel has no CONFIG_PROC_CHILDREN: look at every process.
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and parent_of(int(name)) == pid]
    except OSError:
        return []


def parent_of(pid: int) -> int:
    """The pid of a process's parent; -1 when the process is gone."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return -1
