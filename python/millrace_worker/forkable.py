"""Whether a process that has imported an app may be forked, and what a fork must make anew.

A fork copies memory, not threads, and shares what is open. So it is safe only while the import has left
nothing that works in the background and nothing that two processes must not both hold.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from typing import Any

_HARMLESS_DEVICES = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
# Their worker threads are made anew after a fork by handlers of their own.
_BLAS = ("openblas", "libmkl", "libblis", "libblas", "libgomp", "libiomp", "libomp")


def open_descriptors() -> set[int]:
    """The descriptors open now, without the one the listing itself took."""
    return {int(name) for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)}


def reason_against(before: set[int]) -> str | None:
    """Why this process may not be forked; None when it may. `before`: what was open before the import."""
    return _threads() or _descriptors(before)


def renew(module: Any) -> None:
    """In the child: what a replica must have for itself, a place in its files and random numbers."""
    _reopen_files()
    _renew_random(module)


def _reopen_files() -> None:
    # A descriptor shared by a fork shares its place too: one replica's read would move the others'.
    for descriptor in open_descriptors():
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            continue
        inheritable = os.get_inheritable(descriptor)
        try:
            own = os.open("/proc/self/fd/%d" % descriptor, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # No right to open it again: as good as it can be.
        os.lseek(own, os.lseek(descriptor, 0, os.SEEK_CUR), os.SEEK_SET)
        os.dup2(own, descriptor, inheritable)
        os.close(own)


def _renew_random(module: Any) -> None:
    """For what draws without a seed of the user's."""
    if "random" in sys.modules:
        sys.modules["random"].seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is None:
        return
    numpy_random.seed()
    for value in list(vars(module).values()):
        if isinstance(value, numpy_random.Generator):
            _renew_generator(value)


def _renew_generator(generator: Any) -> None:
    bits = generator.bit_generator
    entropy = getattr(getattr(bits, "seed_seq", None), "entropy", None)
    # Without a seed numpy draws 128 bits; a seed that somebody wrote is meant to repeat.
    if isinstance(entropy, int) and entropy >= 1 << 64:
        bits.state = type(bits)().state


def _threads() -> str | None:
    # By frames as well: `_thread` starts threads that the threading module never hears of.
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
    """How many BLAS or OpenMP libraries are loaded: each may keep a thread per further processor."""
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
        if stat.S_ISREG(mode) and _is_writable(descriptor):
            return "the import opened %s for writing" % target
    return None


def _is_writable(descriptor: int) -> bool:
    with open("/proc/self/fdinfo/%d" % descriptor, encoding="ascii") as info:
        for line in info:
            if line.startswith("flags:"):
                return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return True
