"""Gives all of a project's storage to one user. Runs as root, before any app, and can be repeated after a crash.

Apps may have left any links there, so none is followed: each file is checked and given away by one descriptor.
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

from .looks import closing

_FCHOWNAT = {"x86_64": 260, "aarch64": 54}
_OPENAT2 = 437
_AT_EMPTY_PATH = 0x1000
_RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x04, 0x08
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HOLD = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

#: The mode of the folder itself until this is done, and after it.
UNFINISHED, FINISHED = 0o1700, 0o700


def main() -> None:
    """Reads from stdin a folder, a user, and a folder for files that cannot be given away; prints their number."""
    order = json.loads(sys.stdin.buffer.readline())
    print(json.dumps({"count": adopt(order["folder"], order["user"], order["aside"])}))


def adopt(folder: str, user: int, aside: str) -> int:
    """Returns how many files were not given to the user. A file with another name outside may be another user's: it is
    moved to `aside` as it is.
    """
    count = 0
    with closing(os.open(folder, _FOLDER)) as top:
        os.fchmod(top, UNFINISHED)
        os.fchown(top, user, user)
        links = Counter(each.key for each in _below(top) if each is not None and each.key is not None)
        for each in _below(top):
            if each is None:
                count += 1
            elif each.key is not None and links[each.key] != each.facts.st_nlink:
                os.makedirs(aside, 0o700, exist_ok=True)
                name = os.path.basename(each.path)
                os.rename(name, "%s/%s-%s" % (aside, os.urandom(4).hex(), name[:200]), src_dir_fd=each.folder)
                count += 1
            elif (each.facts.st_uid, each.facts.st_gid) != (user, user):
                kernel.syscall(_FCHOWNAT[kernel.MACHINE], each.held, b"", user, user, _AT_EMPTY_PATH)
        os.fchmod(top, FINISHED)
    return count


class _Found(NamedTuple):
    path: str
    #: Descriptors of its folder, and of itself.
    folder: int
    held: int
    facts: os.stat_result
    #: Identifies a file with several names.
    key: tuple[int, int] | None


def _below(top: int) -> Iterator[_Found | None]:
    """Everything below a folder; None for a folder that cannot be opened, and for another disk."""
    device = os.fstat(top).st_dev
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            opened = _open(top, folder)
        except OSError:
            yield None
            continue
        with closing(opened):
            for name in os.listdir(opened):
                path = folder + "/" + name if folder else name
                try:
                    held = os.open(name, _HOLD, dir_fd=opened)
                except FileNotFoundError:
                    continue
                with closing(held):
                    facts = os.fstat(held)
                    is_folder = stat.S_ISDIR(facts.st_mode)
                    if facts.st_dev != device:
                        yield None
                        continue
                    if is_folder:
                        folders.append(path)
                    several = not is_folder and facts.st_nlink > 1
                    yield _Found(path, opened, held, facts, (facts.st_dev, facts.st_ino) if several else None)


def _open(top: int, path: str) -> int:
    if not path:
        return os.open(".", _FOLDER, dir_fd=top)
    how = struct.pack("=QQQ", _FOLDER, 0, _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH)
    return kernel.syscall(_OPENAT2, top, os.fsencode(path), how, len(how))
