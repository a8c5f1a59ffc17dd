"""The device files of NVIDIA GPUs, and which of them an app can open. Other accelerators are not assigned to apps.

On `userns` and `uid` every GPU that a seat may ever get is in its view, and those that it does not have are on mounts
that open no devices. Only the agent can change that, while the seat runs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

#: What the users of all GPUs share.
_COMMON = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")


class Gpus:
    """The GPUs that a seat may ever get, and those that it has, by their device files. Raises ValueError for others."""

    def __init__(self, every: Sequence[str], granted: Sequence[str]) -> None:
        for path in every:
            if not path.startswith("/dev/") or os.path.normpath(path) != path:
                raise ValueError("%r is no device file" % path)
        for path in granted:
            if path not in every:
                raise ValueError("%r is none of the GPUs of this seat" % path)
        self._every = every
        self._granted = granted

    def files(self) -> list[str]:
        """All device files that it may ever open; some may not exist."""
        return _with_common(self._every)

    def closed(self) -> list[str]:
        """Those of its files that it cannot open now."""
        granted = _with_common(self._granted)
        return [path for path in self.files() if path not in granted]

    def needs(self, path: str) -> bool:
        """Whether it was granted this file, which then has to exist."""
        return path in self._granted


def _with_common(files: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*_COMMON, *files])) if files else []


def keep_to(gpus: Gpus) -> None:
    """Keeps this process and all it starts from GPUs of its seat that are not granted. Raises OSError on failure."""
    from . import landlock

    closed = gpus.closed()
    if closed and landlock.version() >= landlock.MOVES_SINCE:
        landlock.hide_devices(closed)


def reason_against_forks(every: Sequence[str]) -> str | None:
    """Why forks in a seat with these GPUs cannot be kept to their own, or None. Each would count from the first that
    any of them has, and two would use the same one.
    """
    from . import landlock

    if len(every) < 2 or landlock.version() >= landlock.MOVES_SINCE:
        return None
    return "the kernel's Landlock is too old, or off, to keep forks to GPUs of their own"
