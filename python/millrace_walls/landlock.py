"""Restricts the files that an app may reach. Landlock does not hide a file's name, size and mode, nor does it prevent
changes of mode and owner: only namespaces do.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Collection, Iterable

from . import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1

# Rights on files; each came with a version of the interface.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_FILE, _MAKE_FILE = 1 << 5, 1 << 8
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_FILES_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
#: Rights to bind and to connect TCP ports. No rule grants them.
_TCP = 3
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_BY_NAME = _READ_FILE | _WRITE_FILE | _REMOVE_FILE | _MAKE_FILE | _TRUNCATE

#: From this version on, abstract sockets and processes outside are out of reach.
SCOPES_SINCE = 6
_SCOPES = 3
#: Before this version every layer forbids to move and link files between folders.
MOVES_SINCE = 2


def version() -> int:
    """The version of the kernel's Landlock; 0 if it is missing or switched off."""
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
    """Restricts this process and all it starts to those paths; missing ones are ignored. Raises OSError on failure.

    `read` includes execution, `write` all rights in a folder, `change` writing to files, `by_name` making, using and
    removing plain files. With `no_tcp` it can neither connect nor bind over TCP, if the kernel supports that.
    """
    known = version()
    files = _rights_on_files(known)
    size = 24 if known >= SCOPES_SINCE else 16 if known >= 4 else 8
    attributes = struct.pack("=QQQ", files, _TCP if no_tcp else 0, _SCOPES)[:size]
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


def _rights_on_files(known: int) -> int:
    if known == 0:
        raise OSError(errno.EOPNOTSUPP, "the kernel has no Landlock, or has it switched off")
    return _FILES_BY_VERSION[max(each for each in _FILES_BY_VERSION if each <= known)]


def hide_devices(hidden: Collection[str]) -> None:
    """Keeps this process and all it starts from opening these devices of its own view of the machine, by a layer that
    allows everything else in it. Raises OSError on failure, such as in a process that has 16 layers already.
    """
    handled = (_READ_FILE | _WRITE_FILE | _REFER | _IOCTL_DEVICE) & _rights_on_files(version())
    attributes = struct.pack("=Q", handled)
    ruleset = kernel.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        _open_up(ruleset, ("/",), handled & _REFER)
        _open_up(ruleset, _seen_beside(hidden), handled & ~_REFER)
        kernel.gain_no_privileges()
        kernel.syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _seen_beside(hidden: Collection[str]) -> set[str]:
    """What holds all that a view shows, without those devices. An app may not list `/` and `/dev`, but everything that
    it sees is mounted there.
    """
    found = {"/etc"}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        for mount in mounts:
            path = mount.split(" ")[4]
            if not path.startswith("/dev/"):
                found.add("/" + path.split("/")[1])
            elif path not in hidden:
                found.add(path)
    return {_unescaped(path) for path in found - {"/"}}


def _unescaped(path: str) -> str:
    """The kernel writes spaces, line ends and backslashes as octal numbers."""
    for number in (0o40, 0o11, 0o12, 0o134):
        path = path.replace("\\%03o" % number, chr(number))
    return path


def _open_up(ruleset: int, paths: Iterable[str], rights: int) -> None:
    for path in paths:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue  # Missing, or out of this user's reach anyway.
        try:
            allowed = rights if os.path.isdir("/proc/self/fd/%d" % place) else rights & _OF_A_FILE
            kernel.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", allowed, place), 0)
        finally:
            os.close(place)
