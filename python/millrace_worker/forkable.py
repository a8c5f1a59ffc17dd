"""Decides whether a process that has imported an app may fork, and renews what forks must not share.

A fork copies memory, but not threads, and shares open files. So it is safe only if the import has left no threads and
no descriptors that two processes must not share.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from typing import Any

_HARMLESS_DEVICES = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
# Their own handlers restart their worker threads after a fork.
_BLAS = ("openblas", "libmkl", "libblis", "libblas", "libgomp", "libiomp", "libomp")


def open_descriptors() -> set[int]:
    """The open descriptors, without that of the listing itself."""
    return {int(name) for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)}


def reason_against(before: set[int]) -> str | None:
    """Why this process may not fork, or None. `before` are the descriptors before the import."""
    return _threads() or _descriptors(before)


def renew(module: Any) -> None:
    """Gives a forked replica its own offsets in open files and its own random numbers."""
    # A forked descriptor shares its offset: one replica's read would move the others'.
    for descriptor in open_descriptors():
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            continue
        inheritable = os.get_inheritable(descriptor)
        try:
            own = os.open("/proc/self/fd/%d" % descriptor, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # It may not be opened again, and stays shared.
        os.lseek(own, os.lseek(descriptor, 0, os.SEEK_CUR), os.SEEK_SET)
        os.dup2(own, descriptor, inheritable)
        os.close(own)
    if "random" in sys.modules:
        sys.modules["random"].seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is None:
        return
    numpy_random.seed()
    for value in list(vars(module).values()):
        if isinstance(value, numpy_random.Generator):
            bits: Any = value.bit_generator
            entropy = getattr(getattr(bits, "seed_seq", None), "entropy", None)
            # Without a seed numpy draws 128 bits; a seed in the user's code is meant to repeat.
            if isinstance(entropy, int) and entropy >= 1 << 64:
                bits.state = type(bits)().state


def _threads() -> str | None:
    # Frames too: the threading module does not know threads that `_thread` has started.
    if max(threading.active_count(), len(sys._current_frames())) > 1:  # pyright: ignore[reportPrivateUsage] - documented
        names = ", ".join(thread.name for thread in threading.enumerate() if thread is not threading.main_thread())
        return "the import started a thread (%s)" % (names or "without a name")
    native = [int(tid) for tid in os.listdir("/proc/self/task") if int(tid) != os.getpid()]
    if not native:
        return None
    libraries = _mapped_blas()
    own = _name_of(os.getpid())
    strangers = [name for name in map(_name_of, native) if name != own]
    if strangers:
        return "a native thread is running (%s)" % strangers[0]
    if len(native) > libraries * max(0, (os.cpu_count() or 1) - 1):
        return "%d native threads are running" % len(native)
    return None


def _mapped_blas() -> int:
    """How many BLAS or OpenMP libraries are loaded: each may keep a thread for each further processor."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        files = {line.rsplit(None, 1)[-1] for line in maps if "/" in line}
    return sum(1 for file in files if any(mark in os.path.basename(file) for mark in _BLAS))


def _name_of(tid: int) -> str:
    try:
        with open("/proc/self/task/%d/comm" % tid, encoding="utf-8", errors="replace") as comm:
            return comm.read().strip()
    except OSError:
        return ""


def _descriptors(before: set[int]) -> str | None:
    for descriptor in sorted(open_descriptors() - before):
        mode = os.fstat(descriptor).st_mode
        target = os.readlink("/proc/self/fd/%d" % descriptor)
        if stat.S_ISSOCK(mode):
            return "the import opened a socket"
        if stat.S_ISFIFO(mode):
            return "the import opened a pipe"
        if target.startswith("anon_inode:"):
            return "the import opened %s" % target[len("anon_inode:") :]
        if stat.S_ISCHR(mode) and target not in _HARMLESS_DEVICES:
            return "the import opened the device %s" % target
        if stat.S_ISREG(mode):
            import fcntl  # A library of its own, which few apps need here.

            if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                return "the import opened %s for writing" % target
    return None
