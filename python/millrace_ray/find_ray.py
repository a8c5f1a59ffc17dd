"""Which Python has Ray: the shell of a job need not find the one that its cluster runs on."""

from __future__ import annotations

import os
import re
import sys

#: A library of Ray, in the memory of each of its processes; what stands before belongs to the Python that has it.
_LIBRARY = re.compile(r"(/.*)/lib(?:64)?/python3\.\d+/(?:site|dist)-packages/ray/_raylet\.so$", re.MULTILINE)
#: The shell, and whoever started that.
_LEVELS = 4


def use_it(arguments: list[str]) -> None:
    """Goes on with the Python of the Ray process that started the job, if that is another than this one."""
    prefix = _prefix_above()
    if prefix is None or os.path.realpath(prefix) == os.path.realpath(sys.prefix):
        return
    python = os.path.join(prefix, "bin", "python3")
    if os.access(python, os.X_OK):
        os.execv(python, [python, *arguments])


def _prefix_above() -> str | None:
    pid = os.getppid()
    for _ in range(_LEVELS):
        try:
            with open("/proc/%d/maps" % pid, encoding="utf-8", errors="replace") as maps:
                found = _LIBRARY.search(maps.read())
            if found:
                return found.group(1)
            with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as stat:
                pid = int(stat.read().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            break  # Of another user, or gone.
    return None
