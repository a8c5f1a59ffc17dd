"""The device files of NVIDIA GPUs, and which of them an app can open. Other accelerators are not assigned to apps.

On `userns` and `uid` every GPU that a seat may ever get is in its view, and those that it does not have are on mounts
that open no devices. Only the agent can change that, while the seat runs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

#: What the users of all GPUs share.
_COMMON = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")

_SETNS = {"x86_64": 308, "aarch64": 268}
_NEW_VIEW, _NEW_USER = 0x00020000, 0x10000000
#: From the descriptor of a namespace, that of the user namespace in which it was made.
_GET_OWNER = 0xB701
_DONE = b"done"
_MAX_BYTES = 1000


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


def _with_common(nodes: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*_COMMON, *nodes])) if nodes else []


def show(pid: int, gpus: Gpus) -> str | None:
    """Has the seat whose first process is `pid` open exactly the granted GPUs from now on, also in processes that run
    already. Files that are open stay open. Returns why it failed, or None.

    Needs no rights on the host: the maker of a user namespace has every right in it. A process of its own enters it.
    """
    # Not later: that process sees the files of the app.
    import fcntl

    from . import kernel, namespaces

    closed = gpus.closed()
    # First those that are taken away: a failure leaves less open, never more.
    changes = [(path, path not in closed) for path in sorted(gpus.files(), key=lambda each: each not in closed)]
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            view = os.open("/proc/%d/ns/mnt" % pid, os.O_RDONLY)
            # The process itself may be in a namespace below that one, without rights.
            owner = fcntl.ioctl(view, _GET_OWNER)
            kernel.syscall(_SETNS[kernel.MACHINE], owner, _NEW_USER)
            kernel.syscall(_SETNS[kernel.MACHINE], view, _NEW_VIEW)
            for path, is_open in changes:
                try:
                    namespaces.open_device(path, is_open)
                except FileNotFoundError:
                    if gpus.needs(path):
                        raise
            os.write(tell, _DONE)
        except OSError as error:
            os.write(tell, str(error).encode()[:_MAX_BYTES])
        finally:
            os._exit(0)
    os.close(tell)
    with open(told, "rb") as source:
        said = source.read()
    os.waitpid(child, 0)
    return None if said == _DONE else said.decode(errors="replace") or "the process that changes it was ended"


def keep_to(gpus: Gpus) -> None:
    """Keeps this process and all it starts from those GPUs of a seat that are not granted. Raises OSError if that fails.
    Does nothing on kernels without a fit Landlock: there a replica can open what any replica of its seat may.
    """
    from . import landlock

    closed = gpus.closed()
    if closed and landlock.version() >= landlock.MOVES_SINCE:
        landlock.hide_devices(closed)
