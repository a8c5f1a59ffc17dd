"""What a process gives up for good before an app's code runs in it."""

from __future__ import annotations

import errno
import os
import resource
import struct

from . import kernel

_PR_CAPBSET_DROP = 24
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION_3 = 0x20080522

#: The most that may be open at once: a table of it costs 8 bytes each, and `close` loops of old programs go over it.
_OPEN_FILES = 65_536
#: Processes and threads of the whole user, which may be the service's: a bomb ends here, an app with many threads not.
_PROCESSES = 16_384


def drop(user: int | None) -> None:
    """No capability, none regained by a setuid program; from now on this is a process of `user`, if one is named."""
    kernel.gain_no_privileges()
    for capability in range(64):
        try:
            kernel.prctl(_PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EPERM):
                raise
            break  # The kernel knows no more; or an ordinary user asks, who has none to regain.
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    kernel.syscall(_CAPSET[kernel.MACHINE], header, bytes(24))


def limit() -> None:
    """No core dump with its memory in it, and a bound on what one app takes from all."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for what, most in ((resource.RLIMIT_NOFILE, _OPEN_FILES), (resource.RLIMIT_NPROC, _PROCESSES)):
        soft, hard = (_at_most(each, most) for each in resource.getrlimit(what))
        resource.setrlimit(what, (soft, hard))


def _at_most(limit: int, most: int) -> int:
    return most if limit == resource.RLIM_INFINITY else min(limit, most)
