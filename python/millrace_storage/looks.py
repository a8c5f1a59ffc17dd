"""Reads from a volume."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

#: A further name of the storage in apps, which their links may use.
_LITERAL = "/persistent-storage"
_FOLDER_MODE = 0o755
#: Errors that mean that a path does not exist in the volume, or is not visible to its user.
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP)


class Refused(Exception):
    """Why a path cannot be used, in words that the service knows."""


@contextmanager
def closing(descriptor: int) -> Generator[int, None, None]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_inside(root: str, names: Sequence[str], flags: int = os.O_RDONLY) -> int:
    """Opens a path whose real path is inside the volume, without blocking on a pipe."""
    with closing(os.open("/".join((root, *names)), os.O_PATH | os.O_CLOEXEC)) as found:
        here = "/proc/self/fd/%d" % found
        real = os.readlink(here)
        if real == root or real.startswith(root + "/"):
            return os.open(here, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if real == _LITERAL or real.startswith(_LITERAL + "/"):
        # By its usual name: files cannot be moved between two mounts of one folder.
        return open_inside(root, [name for name in real[len(_LITERAL) :].split("/") if name], flags)
    # As if it did not exist: callers must learn nothing about files outside.
    raise FileNotFoundError(errno.ENOENT, "outside the volume")


def open_if_there(root: str, names: Sequence[str], flags: int = os.O_RDONLY) -> int | None:
    try:
        return open_inside(root, names, flags)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise


def folder_at(root: str, names: Sequence[str]) -> AbstractContextManager[int]:
    return closing(open_inside(root, names, os.O_RDONLY | os.O_DIRECTORY))


def make_folder(root: str, names: Sequence[str]) -> AbstractContextManager[int]:
    """Opens a folder, and makes missing ones on the way."""
    for depth in range(1, len(names) + 1):
        with folder_at(root, names[: depth - 1]) as above, suppress(FileExistsError):
            os.mkdir(names[depth - 1], _FOLDER_MODE, dir_fd=above)
    return folder_at(root, names)


#: The prefix of hidden names at the top of the volume, for files that arrive and folders that are being removed.
STAGED = ".millrace-staged-"
_BLOCK_BYTES = 512
_READ_BYTES = 256 * 1024


def entries(root: str, names: Sequence[str], most: int) -> list[tuple[str, bool, int, int]]:
    """The entries of a folder: name, whether it is a folder, size, and time of change in milliseconds."""
    folder = open_if_there(root, names, os.O_RDONLY | os.O_DIRECTORY)
    if folder is None:
        return []
    with closing(folder):
        # Reads no more than that: an app may have made a thousand times as many.
        with os.scandir(folder) as every:
            found = [entry.name for entry in itertools.islice(every, most + 1)]
        if len(found) > most:
            raise Refused("is a folder with more than %d entries, too many to list" % most)
        shown = (_entry(root, names, name, folder) for name in found if names or not name.startswith(STAGED))
        return sorted(each for each in shown if each is not None)


def facts(root: str, names: Sequence[str]) -> dict[str, str]:
    """What changes with the content of a file."""
    with closing(_open_file(root, names)) as file:
        return _facts(file)


def read(root: str, names: Sequence[str], first: int, last: int, known: dict[str, str]) -> Iterator[bytes]:
    """The bytes of a file, if its facts are still those."""
    file = _open_file(root, names)
    if _facts(file) != known:
        os.close(file)
        raise Refused("is another file by now")
    return _bytes_of(file, first, last)


def size_of(root: str, names: Sequence[str]) -> int | None:
    """The size of a file; None if there is none."""
    file = open_if_there(root, names)
    if file is None:
        return None
    with closing(file):
        found = os.fstat(file)
        return found.st_size if stat.S_ISREG(found.st_mode) else None


def bytes_below(root: str) -> int:
    """The disk space of a volume, without following links, and without folders that cannot be read."""
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
    file = open_inside(root, names)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise Refused("is not a file")


def _facts(file: int) -> dict[str, str]:
    found = os.fstat(file)
    # As text: they may be too large for JavaScript's numbers.
    return {"size": str(found.st_size), "modified_ns": str(found.st_mtime_ns), "inode": str(found.st_ino)}


def _bytes_of(file: int, first: int, last: int) -> Iterator[bytes]:
    with closing(file):
        while first <= last:
            piece = os.pread(file, min(_READ_BYTES, last - first + 1), first)
            if not piece:
                raise OSError("the file became shorter while it was read")
            first += len(piece)
            yield piece


def _entry(root: str, names: Sequence[str], name: str, folder: int) -> tuple[str, bool, int, int] | None:
    """None for what was removed meanwhile, and for what is neither a file nor a folder of this volume."""
    try:
        found: Any = os.lstat(name, dir_fd=folder)
        if stat.S_ISLNK(found.st_mode):
            with closing(open_inside(root, (*names, name))) as target:
                found = os.fstat(target)
    except OSError:
        return None
    is_folder = stat.S_ISDIR(found.st_mode)
    if not (is_folder or stat.S_ISREG(found.st_mode)):
        return None
    return _text(name), is_folder, 0 if is_folder else found.st_size, round(found.st_mtime_ns / 1_000_000)


_ARCHIVED_BYTES = 1024 * 1024


def told(root: str) -> Iterator[dict[str, Any] | bytes]:
    """An archive: folders before their content. A file has as many bytes as its line says, even if it changes."""
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            # All at once, and each once: a folder that is read while its files are replaced may name them again and
            # again, and an archive with a name in it twice cannot be restored.
            names = sorted({*os.listdir(os.path.join(root, folder))})
        except OSError:
            yield {"kind": "odd", "name": _text(folder)}
            continue
        for name in names:
            if not folder and name.startswith(STAGED):
                continue
            path = os.path.join(folder, name)
            place = os.path.join(root, path)
            try:
                found = os.lstat(place)
                target = os.readlink(place) if stat.S_ISLNK(found.st_mode) else ""
            except OSError:
                continue  # An app has just removed it.
            head = {"name": _text(path), "mode": stat.S_IMODE(found.st_mode), "modified": found.st_mtime}
            if head["name"] != path:  # It is not UTF-8.
                yield {"kind": "odd", "name": head["name"]}
            elif stat.S_ISDIR(found.st_mode):
                yield {**head, "kind": "directory"}
                folders.append(path)
            elif stat.S_ISREG(found.st_mode):
                yield from _file(place, head)
            elif stat.S_ISLNK(found.st_mode):
                yield {**head, "kind": "link", "target": _text(target)}
            else:
                yield {"kind": "odd", "name": head["name"]}
    yield {"kind": "over"}


def _file(path: str, head: dict[str, Any]) -> Iterator[dict[str, Any] | bytes]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield {"kind": "odd", "name": head["name"]}
        return
    with closing(file):
        size = os.fstat(file).st_size
        yield {**head, "kind": "file", "size": size}
        left = size
        while left > 0:
            piece = os.read(file, min(left, _ARCHIVED_BYTES))
            if not piece:
                break
            left -= len(piece)
            yield piece
        is_changed = left > 0 or os.fstat(file).st_size != size
        while left > 0:
            filling = bytes(min(left, _ARCHIVED_BYTES))
            left -= len(filling)
            yield filling
        yield {"kind": "end", "changed": is_changed}


def _text(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "replace")
