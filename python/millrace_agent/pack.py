"""Packs a folder into a gzipped archive for the blob store: files, folders and links, with a hash at the end."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator

from .unpack import MAX_BYTES, MAX_ENTRIES, is_too_long, stays_inside

_PIECE_BYTES = 256 * 1024
_SEAL_NAME = "sha256"
#: The fastest: a build waits for it, and higher levels save only a tenth.
_LEVEL = 1
#: Links to the interpreter, which every machine makes for itself.
_INTERPRETER = re.compile(r"bin/python[\d.]*\Z")


class Unpackable(Exception):
    """Something in the folder would not be the same on another machine."""


def pack(folder: str, send: Callable[[bytes], object], marker: str | None = None) -> None:
    """Sends the archive in pieces, then the SHA-256 of all pieces. Follows no links.

    `marker` is for an environment: the name of a file that says where it was made. Links to its interpreter are left
    out.
    """
    digest, sent = hashlib.sha256(), hashlib.sha256()
    gzip = zlib.compressobj(_LEVEL, wbits=31)

    def put(data: bytes) -> None:
        digest.update(data)
        put_sent(gzip.compress(data))

    def put_sent(data: bytes) -> None:
        sent.update(data)
        if data:
            send(data)

    left = MAX_BYTES
    for count, (name, path) in enumerate(_names(folder)):
        if count >= MAX_ENTRIES or is_too_long(name):
            raise Unpackable('"%s" has a name that is too long, or is one file too many' % name[:200])
        if marker is not None and name.split("/", 1)[0] == marker:
            continue
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode):
            put(_head(name, found, tarfile.DIRTYPE))
        elif stat.S_ISLNK(found.st_mode):
            target = os.readlink(path)
            if marker is not None and target.startswith("/") and _INTERPRETER.match(name):
                continue
            if not stays_inside(name, target) or is_too_long(target):
                raise Unpackable('"%s" is a link to "%s"' % (name[:200], target[:200]))
            put(_head(name, found, tarfile.SYMTYPE, target))
        elif stat.S_ISREG(found.st_mode):
            left -= found.st_size
            if left < 0:
                raise Unpackable('"%s" makes the folder too large' % name[:200])
            _put_file(name, path, put)
        else:
            raise Unpackable("%r is neither a file, a folder nor a link" % name[:200])
    if marker is not None:
        put(_text_file(marker, folder))
    put(_text_file(_SEAL_NAME, digest.hexdigest()) + bytes(2 * tarfile.BLOCKSIZE))
    put_sent(gzip.flush())
    send(sent.digest())


def _text_file(name: str, text: str) -> bytes:
    content = text.encode()
    info = tarfile.TarInfo(name)
    info.size = len(content)
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict") + content + _padding(info.size)


def _names(folder: str) -> Iterator[tuple[str, str]]:
    """Everything below a folder, in a stable order, folders before their content."""
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
                raise Unpackable("%r changed while it was read" % name[:200])
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
        return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
    except UnicodeEncodeError:
        raise Unpackable("%r has a name that is not UTF-8" % name[:200]) from None


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)
