"""Packs a folder into an archive that the services read: files, folders and links, and a seal at its end."""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Callable

_PIECE_BYTES = 256 * 1024
_SEAL_NAME = "sha256"


class Unpackable(Exception):
    """Something in the folder cannot be packed."""


def pack(folder: str, send: Callable[[bytes], None]) -> None:
    """Sends the archive in pieces, which are not compressed. No link is followed."""
    digest = hashlib.sha256()

    def put(data: bytes) -> None:
        digest.update(data)
        send(data)

    for name, path in _names(folder):
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode):
            put(_head(name, found, tarfile.DIRTYPE))
        elif stat.S_ISLNK(found.st_mode):
            put(_head(name, found, tarfile.SYMTYPE, os.readlink(path)))
        elif stat.S_ISREG(found.st_mode):
            _put_file(name, path, put)
        else:
            raise Unpackable("%r is neither a file, a folder nor a link" % name[:200])
    seal = digest.hexdigest().encode("ascii")
    info = tarfile.TarInfo(_SEAL_NAME)
    info.size = len(seal)
    send(_block(info) + seal + _padding(info.size) + bytes(2 * tarfile.BLOCKSIZE))


def _names(folder: str) -> Iterator[tuple[str, str]]:
    """Everything below, in an order that is always the same; folders before what is in them."""
    for place, folders, files in os.walk(folder):
        folders.sort()
        for entry in sorted([*folders, *files]):
            path = os.path.join(place, entry)
            yield os.path.relpath(path, folder), path


def _put_file(name: str, path: str, put: Callable[[bytes], None]) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        found = os.fstat(descriptor)
        put(_head(name, found, tarfile.REGTYPE))
        left = found.st_size
        while left > 0:
            piece = file.read(min(left, _PIECE_BYTES))
            if not piece:
                raise Unpackable("%r has changed meanwhile" % name[:200])
            left -= len(piece)
            put(piece)
        put(_padding(found.st_size))


def _head(name: str, found: os.stat_result, kind: bytes, target: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    info.mode = found.st_mode & 0o777
    info.mtime = max(0, int(found.st_mtime))
    info.size = found.st_size if kind == tarfile.REGTYPE else 0
    try:
        return _block(info)
    except UnicodeEncodeError:
        raise Unpackable("%r has a name that is not UTF-8" % name[:200]) from None


def _block(info: tarfile.TarInfo) -> bytes:
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)
