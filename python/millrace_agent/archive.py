"""Archives of files, folders and links, with a seal at the end: unpacks those of services, and packs folders for them.

Nothing is written outside the folder that is unpacked into.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Callable

_MAX_ENTRIES = 2_000_000
_MAX_BYTES = 256 * 1024**3
_MAX_NAME_BYTES = 3_000
_MAX_DEPTH = 500
_MAX_GIVEN_BYTES = 64 * 1024
_PIECE_BYTES = 1024 * 1024
#: The last entry: the hash of every byte before it, which whoever fetched the archive has compared already.
_SEAL_NAME = "sha256"
_SEAL_BYTES = 64


class BadArchive(Exception):
    """It is not one of ours."""


def unpack(file: str, into: str, given: str | None = None) -> bytes | None:
    """Unpacks a file into a folder that is there and empty. The entry named `given` is not written, but the answer."""
    answer: bytes | None = None
    #: Of folders with a slash.
    names: set[str] = set()
    links: list[tuple[str, str]] = []
    folders: list[tuple[str, tarfile.TarInfo]] = []
    left = _MAX_BYTES
    with tarfile.open(file, "r:", encoding="utf-8", errors="surrogateescape") as archive:
        for entry in _before_seal(archive):
            name = _checked_name(entry, names)
            left -= entry.size
            if left < 0 or len(names) > _MAX_ENTRIES:
                raise BadArchive("it holds too much")
            if name == given:
                answer = _whole_of(archive, entry)
            elif entry.isreg():
                _write(archive, entry, os.path.join(into, name))
            elif entry.issym():
                links.append((name, entry.linkname))
            else:
                os.mkdir(os.path.join(into, name), 0o700)
                folders.append((os.path.join(into, name), entry))
    # Links come last, so that no file is written through one; folders get their rights when they are full.
    for name, target in links:
        if not stays_inside(name, target):
            raise BadArchive("the link %r leads outside" % name)
        os.symlink(target, os.path.join(into, name))
    for folder, entry in reversed(folders):
        os.chmod(folder, entry.mode & 0o777)
        os.utime(folder, (entry.mtime, entry.mtime))
    return answer


def _before_seal(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """All entries but the last, which is the seal. An app may have a file of that name, too."""
    last: tarfile.TarInfo | None = None
    for entry in archive:
        # Else it remembers each of them.
        archive.members = []  # pyright: ignore[reportAttributeAccessIssue] - every Python has it
        if last is not None:
            yield last
        last = entry
    if last is None or last.name != _SEAL_NAME or not last.isreg() or last.size != _SEAL_BYTES:
        raise BadArchive("its end is missing")


def stays_inside(name: str, target: str) -> bool:
    """Whether a link goes up first, no higher than the folder, and never up again."""
    if target == "" or target.startswith("/") or "\0" in target:
        return False
    steps = target.split("/")
    ups = 0
    while ups < len(steps) and steps[ups] == "..":
        ups += 1
    return name.count("/") >= ups and ".." not in steps[ups:]


def _checked_name(entry: tarfile.TarInfo, names: set[str]) -> str:
    if not (entry.isreg() or entry.isdir() or entry.issym()) or entry.issparse():
        raise BadArchive("an entry of a kind that is not allowed")
    name = entry.name
    steps = name.split("/")
    is_plain = "\0" not in name and not any(step in ("", ".", "..") for step in steps)
    # A name that was cut in its header, in the middle of a character, stands whole in the entry before it.
    is_text = not any("\ud800" <= character <= "\udfff" for character in name)
    is_short = is_text and len(name.encode()) <= _MAX_NAME_BYTES and len(steps) <= _MAX_DEPTH
    # Below a link it could lie anywhere, and the next link below that, too.
    above = name[: name.rfind("/") + 1]
    is_in_folder = above == "" or above in names
    if not is_plain or not is_short or not is_in_folder or not names.isdisjoint((name, name + "/")):
        raise BadArchive("an entry has the invalid name %r" % name[:200])
    names.add(name + "/" if entry.isdir() else name)
    return name


def _write(archive: tarfile.TarFile, entry: tarfile.TarInfo, target: str) -> None:
    mode = entry.mode & 0o777
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode | 0o600)
    with os.fdopen(descriptor, "wb") as file:
        content = archive.extractfile(entry)
        if content is None:
            raise BadArchive("an entry has no content")
        count = 0
        while piece := content.read(_PIECE_BYTES):
            count += len(piece)
            file.write(piece)
        if count != entry.size:
            raise BadArchive("it ends too early")
        file.flush()
        os.fchmod(descriptor, mode)
        # Python compares it with what its compiled code says.
        os.utime(descriptor, (entry.mtime, entry.mtime))


def _whole_of(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    content = archive.extractfile(entry) if entry.isreg() and entry.size <= _MAX_GIVEN_BYTES else None
    if content is None:
        raise BadArchive("it holds too much")
    return content.read()


_SENT_BYTES = 256 * 1024


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
            piece = file.read(min(left, _SENT_BYTES))
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
