"""Which files an app may reach. The kernel refuses everything below the root but what is named here.

It does not refuse to look at a file's name, size and mode, nor to change its mode or owner: only namespaces hide those.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable

from . import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1

# Rights on files, as bits; each comes with a version of the interface.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_FILE, _MAKE_FILE = 1 << 5, 1 << 8
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
_FILES_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
#: Rights on ports: to take one and to connect to one. No rule ever gives them back.
_TCP = 3
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_BY_NAME = _READ_FILE | _WRITE_FILE | _REMOVE_FILE | _MAKE_FILE | _TRUNCATE

#: Since this version no abstract socket and no process outside can be reached.
SCOPES_SINCE = 6
_SCOPES = 3


def version() -> int:
    """The version of the kernel's interface; 0 where it has none, or has it switched off."""
    try:
        return kernel.syscall(_CREATE_RULESET, 0, 0, _VERSION)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
            return 0
        raise


def install(
    *,
    read: Iterable[str],
    write: Iterable[str],
    change: Iterable[str],
    by_name: Iterable[str],
    devices: Iterable[str],
    no_tcp: bool,
) -> None:
    """From now on this process and all it starts reach only that; what is not there is left out.

    What is in `read` may be executed too, in folders of `write` anything may be done, in those of `change` files may be
    written to, in those of `by_name` plain files may be made, and used by name, and devices may be used as they are.
    With `no_tcp` it makes no TCP connection itself and takes no port, if the kernel knows how to refuse that. Raises
    where the host cannot.
    """
    known = version()
    if known == 0:
        raise OSError(errno.EOPNOTSUPP, "the kernel has no Landlock, or has it switched off")
    files = _FILES_BY_VERSION[max(each for each in _FILES_BY_VERSION if each <= known)]
    attributes = struct.pack("=QQQ", files, _TCP if no_tcp else 0, _SCOPES)[: _size(known)]
    ruleset = kernel.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        _open_up(ruleset, read, _READ & files)
        _open_up(ruleset, write, files & ~_IOCTL_DEVICE)
        _open_up(ruleset, change, (_WRITE_FILE | _TRUNCATE) & files)
        _open_up(ruleset, by_name, _BY_NAME & files)
        _open_up(ruleset, devices, (_READ_FILE | _WRITE_FILE | _IOCTL_DEVICE) & files)
        kernel.gain_no_privileges()
        kernel.syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _open_up(ruleset: int, paths: Iterable[str], rights: int) -> None:
    for path in paths:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue  # Not there, or out of this user's reach anyway.
        try:
            allowed = rights if os.path.isdir("/proc/self/fd/%d" % place) else rights & _OF_A_FILE
            kernel.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", allowed, place), 0)
        finally:
            os.close(place)


def _size(known: int) -> int:
    """How much of its attributes a version of the interface knows."""
    return 24 if known >= SCOPES_SINCE else 16 if known >= 4 else 8
