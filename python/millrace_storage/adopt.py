"""Gives all of a project's storage to one user. Runs as root, before any app does, and goes on where it was cut short.

A name in there may be anything that an app once made of it. So nothing is followed: what is found is held, looked at
and given away by its descriptor.
"""

from __future__ import annotations

import json
import os
import stat
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from millrace_walls import kernel

_FCHOWNAT = {"x86_64": 260, "aarch64": 54}
_OPENAT2 = 437
_AT_EMPTY_PATH = 0x1000
_RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x04, 0x08
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HOLD = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

#: The mode of the folder itself while this is under way, and after it.
UNFINISHED, FINISHED = 0o1700, 0o700


class _Left:
    """How much was not given to the user."""

    count = 0


def main() -> None:
    """Reads from stdin a folder, a user, and where to put what cannot be given away; says how much of that there is."""
    order = json.loads(sys.stdin.buffer.readline())
    left = adopt(order["folder"], order["user"], order["aside"])
    print(json.dumps({"count": left.count}))


def adopt(folder: str, user: int, aside: str) -> _Left:
    """A file that has a name elsewhere too may be anybody's: it is put aside, as it is."""
    top = os.open(folder, _FOLDER)
    left = _Left()
    try:
        os.fchmod(top, UNFINISHED)
        os.fchown(top, user, user)
        links = Counter(each.key for each in _below(top, _Left()) if each.key is not None)
        for each in _below(top, left):
            if each.key is not None and links[each.key] != each.facts.st_nlink:
                _put_aside(each, aside)
                left.count += 1
            elif (each.facts.st_uid, each.facts.st_gid) != (user, user):
                kernel.syscall(_FCHOWNAT[kernel.MACHINE], each.held, b"", user, user, _AT_EMPTY_PATH)
        os.fchmod(top, FINISHED)
    finally:
        os.close(top)
    return left


class _Found(NamedTuple):
    path: str
    #: The folder that it is in, and a descriptor of its own.
    folder: int
    held: int
    facts: os.stat_result
    #: Which file it is a name of, where that has several.
    key: tuple[int, int] | None


def _put_aside(found: _Found, aside: str) -> None:
    os.makedirs(aside, 0o700, exist_ok=True)
    name = os.path.basename(found.path)
    os.rename(name, "%s/%s-%s" % (aside, os.urandom(4).hex(), name[:200]), src_dir_fd=found.folder)


def _below(top: int, left: _Left) -> Iterator[_Found]:
    """Everything below a folder."""
    device = os.fstat(top).st_dev
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            opened = _open(top, folder)
        except OSError:
            left.count += 1
            continue
        try:
            for name in os.listdir(opened):
                path = folder + "/" + name if folder else name
                try:
                    held = os.open(name, _HOLD, dir_fd=opened)
                except FileNotFoundError:
                    continue
                try:
                    facts = os.fstat(held)
                    is_folder = stat.S_ISDIR(facts.st_mode)
                    if facts.st_dev != device:
                        left.count += 1
                        continue
                    if is_folder:
                        folders.append(path)
                    several = not is_folder and facts.st_nlink > 1
                    yield _Found(path, opened, held, facts, (facts.st_dev, facts.st_ino) if several else None)
                finally:
                    os.close(held)
        finally:
            os.close(opened)


def _open(top: int, path: str) -> int:
    if not path:
        return os.open(".", _FOLDER, dir_fd=top)
    how = struct.pack("=QQQ", _FOLDER, 0, _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH)
    return kernel.syscall(_OPENAT2, top, os.fsencode(path), how, len(how))
