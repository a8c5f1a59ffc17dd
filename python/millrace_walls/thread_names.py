"""Lets a process name its own threads where Landlock keeps it from writing below /proc.

CUDA and NVML write each thread's name to /proc/self/task/TID/comm when they start, and give up if they cannot. To allow
writing below all of /proc would also open /proc/PID/mem and /proc/sys, so the keeper opens this one file instead. The
kernel lets a process write the names of its own threads alone, whoever has opened the file.
"""

from __future__ import annotations

import os

from .notifier import Notice, Notifier, read_text, status_of

#: Longer than any path that is meant.
_PATH_BYTES = 64


def answer_open(notifier: Notifier, notice: Notice) -> None:
    """Opens a thread's name for its process; everything else is left to the kernel and to Landlock."""
    try:
        opened = _open(notifier, notice)
    except (OSError, KeyError):
        opened = None
    if opened is None:
        notifier.let_through(notice)
        return
    try:
        notifier.reply_with_descriptor(notice, opened)
    except OSError:
        notifier.let_through(notice)
    finally:
        os.close(opened)


def _open(notifier: Notifier, notice: Notice) -> int | None:
    _, path_at, flags, *_ = notice.arguments
    parts = read_text(notice.pid, path_at, _PATH_BYTES).decode("ascii", "replace").split("/")
    if len(parts) != 6 or parts[:2] != ["", "proc"] or parts[3::2] != ["task", "comm"]:
        return None
    # In a pid namespace of its own, a process has a second number, which comes last.
    process = status_of(notice.pid, "NStgid").split()[-1]
    if parts[2] not in ("self", process) or not parts[4].isdecimal():
        return None
    own = os.open("/proc/%d/root/proc" % notice.pid, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        notifier.require_valid(notice)
        name = "%s/task/%d/comm" % (process, int(parts[4]))
        return os.open(name, (flags & os.O_ACCMODE) | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=own)
    finally:
        os.close(own)
