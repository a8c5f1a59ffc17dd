"""What can be asked about a volume."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from typing import Any

from . import inside

#: At the top of the volume, what is on its way in or out.
STAGED = ".millrace-staged-"
_BLOCK_BYTES = 512
_READ_BYTES = 256 * 1024


def entries(root: str, names: Sequence[str], most: int) -> list[tuple[str, bool, int, int]]:
    """What a folder holds, by name: whether it is a folder, its size, when it changed, in milliseconds."""
    folder = inside.open_if_there(root, names, os.O_RDONLY | os.O_DIRECTORY)
    if folder is None:
        return []
    try:
        found = os.listdir(folder)
        if len(found) > most:
            raise inside.Refused("is a folder with more than %d entries, too many to list" % most)
        shown = (_entry(root, names, name, folder) for name in found if names or not name.startswith(STAGED))
        return sorted(each for each in shown if each is not None)
    finally:
        os.close(folder)


def facts(root: str, names: Sequence[str]) -> dict[str, str]:
    """What tells one content of a file from another."""
    return _facts(_open_file(root, names), is_closing=True)


def read(root: str, names: Sequence[str], first: int, last: int, known: dict[str, str]) -> Iterator[bytes]:
    """The bytes of a file, as long as it is what was known of it."""
    file = _open_file(root, names)
    if _facts(file, is_closing=False) != known:
        os.close(file)
        raise inside.Refused("is another file by now")
    return _bytes_of(file, first, last)


def size_of(root: str, names: Sequence[str]) -> int | None:
    """How large a file is; nothing where there is none."""
    file = inside.open_if_there(root, names)
    if file is None:
        return None
    try:
        found = os.fstat(file)
        return found.st_size if stat.S_ISREG(found.st_mode) else None
    finally:
        os.close(file)


def bytes_below(root: str) -> int:
    """What all of it takes up on the disk; links are not followed, and what cannot be read is not counted."""
    total = os.lstat(root).st_blocks * _BLOCK_BYTES
    folders = [root]
    while folders:
        try:
            with os.scandir(folders.pop()) as found:
                for entry in found:
                    total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:
            pass
    return total


def _open_file(root: str, names: Sequence[str]) -> int:
    file = inside.open_inside(root, names)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise inside.Refused("is not a file")


def _facts(file: int, *, is_closing: bool) -> dict[str, str]:
    found = os.fstat(file)
    if is_closing:
        os.close(file)
    # As text: they may be larger than the numbers that every reader of JSON keeps.
    return {"size": str(found.st_size), "modified_ns": str(found.st_mtime_ns), "inode": str(found.st_ino)}


def _bytes_of(file: int, first: int, last: int) -> Iterator[bytes]:
    try:
        while first <= last:
            piece = os.pread(file, min(_READ_BYTES, last - first + 1), first)
            if not piece:
                raise OSError("the file became shorter while it was read")
            first += len(piece)
            yield piece
    finally:
        os.close(file)


def _entry(root: str, names: Sequence[str], name: str, folder: int) -> tuple[str, bool, int, int] | None:
    """Nothing for what is gone meanwhile, and for what is neither a file nor a folder of this volume."""
    try:
        found: Any = os.lstat(name, dir_fd=folder)
        if stat.S_ISLNK(found.st_mode):
            target = inside.open_inside(root, (*names, name))
            try:
                found = os.fstat(target)
            finally:
                os.close(target)
    except OSError:
        return None
    is_folder = stat.S_ISDIR(found.st_mode)
    if not (is_folder or stat.S_ISREG(found.st_mode)):
        return None
    text = os.fsencode(name).decode("utf-8", "replace")
    return text, is_folder, 0 if is_folder else found.st_size, round(found.st_mtime_ns / 1_000_000)
