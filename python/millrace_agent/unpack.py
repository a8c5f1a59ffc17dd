"""Unpacks the archives of bundles and environments. Their content is not trusted: a build may have sent anything.

Nothing is written outside the folder. Only files, folders and links are accepted, each with at most one extended
header. `tarfile` accepts more, and reads some of it into memory without limit.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator

MAX_ENTRIES = 2_000_000
MAX_BYTES = 32 * 1024**3
#: All names and links together, which stay in memory until the end.
_MAX_NAME_CHARS = 64 * 1024**2
_MAX_NAME_BYTES = 3_000
_MAX_DEPTH = 500
_MAX_GIVEN_BYTES = 64 * 1024
#: An extended header: its longest records are `path` and `linkpath`.
_MAX_PAX_BYTES = 8 * 1024
_MAX_PAX_RECORDS = 16
#: Stays free on the disk for everything else on the machine.
_SPARED_BYTES = 64 * 1024**2
_PIECE_BYTES = 1024 * 1024
_BLOCK_BYTES = 512
_GZIP = b"\x1f\x8b"
_FILE, _LINK, _FOLDER, _PAX = b"0", b"2", b"5", b"x"
#: The last entry. Its hash is not checked here, because that of the whole archive was.
_SEAL_NAME = "sha256"
_SEAL_BYTES = 64


class BadArchive(Exception):
    """An archive that no packer of Millrace makes."""


class _Entry:
    def __init__(self, kind: bytes, name: str, target: str, size: int, mode: int, mtime: int) -> None:
        self.kind = kind
        self.name = name
        self.target = target
        self.size = size
        self.mode = mode
        self.mtime = mtime
        #: The content, if it was read with the header.
        self.held: bytes | None = None


class _Source:
    """The bytes of an archive, which may be compressed with gzip."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        first = file.read(_PIECE_BYTES)
        self._gzip = zlib.decompressobj(31) if first.startswith(_GZIP) else None
        #: Bytes that are not decompressed yet.
        self._packed = first if self._gzip is not None else b""
        self._piece = memoryview(b"" if self._gzip is not None else first)

    def take(self, count: int) -> bytes:
        """Exactly that many bytes."""
        return b"".join(self.pieces(count))

    def pieces(self, count: int) -> Iterator[memoryview]:
        """Exactly that many bytes, in pieces."""
        while count > 0:
            if not self._piece:
                self._piece = memoryview(self._next())
            piece, self._piece = self._piece[:count], self._piece[count:]
            count -= len(piece)
            yield piece

    def _next(self) -> bytes:
        data = b""
        if self._gzip is None:
            data = self._file.read(_PIECE_BYTES)
        while self._gzip is not None and not data and not self._gzip.eof:
            self._packed = self._packed or self._file.read(_PIECE_BYTES)
            if not self._packed:
                break
            try:
                data = self._gzip.decompress(self._packed, _PIECE_BYTES)
            except zlib.error:
                raise BadArchive("it is not compressed as it should be") from None
            self._packed = self._gzip.unconsumed_tail
        if not data:
            raise BadArchive("it ends too early")
        return data


def unpack(file: str, into: str, given: str | None = None) -> bytes | None:
    """Unpacks a file into an empty folder. Returns the content of the entry named `given` instead of writing it."""
    answer: bytes | None = None
    #: Names of folders end with a slash.
    names: set[str] = set()
    links: list[_Entry] = []
    folders: list[_Entry] = []
    disk = os.statvfs(into)
    # A full disk would be a problem for the whole machine. Some file systems do not tell their size.
    left = MAX_BYTES if disk.f_blocks == 0 else min(MAX_BYTES, disk.f_bavail * disk.f_frsize - _SPARED_BYTES)
    left_chars = _MAX_NAME_CHARS
    with open(file, "rb", buffering=0) as opened:
        source = _Source(opened)
        for entry in _before_seal(source):
            _check_name(entry, names)
            left -= entry.size
            left_chars -= len(entry.name) + len(entry.target)
            is_given = entry.name == given
            is_unfit = is_given and (entry.kind != _FILE or entry.size > _MAX_GIVEN_BYTES)
            if left < 0 or left_chars < 0 or len(names) > MAX_ENTRIES or is_unfit:
                raise BadArchive("it holds too much")
            if is_given:
                answer = b"".join(_content(source, entry))
            elif entry.kind == _FILE:
                _write(source, entry, os.path.join(into, entry.name))
            elif entry.kind == _LINK:
                links.append(entry)
            else:
                os.mkdir(os.path.join(into, entry.name), 0o700)
                folders.append(entry)
    # Links come last, so that no file is written through one; folders get their modes after their content.
    for link in links:
        if not stays_inside(link.name, link.target) or is_too_long(link.target):
            raise BadArchive("the link %r leads outside" % link.name[:200])
        os.symlink(link.target, os.path.join(into, link.name))
    for folder in reversed(folders):
        os.chmod(os.path.join(into, folder.name), folder.mode)
        os.utime(os.path.join(into, folder.name), (folder.mtime, folder.mtime))
    return answer


def _before_seal(source: _Source) -> Iterator[_Entry]:
    """All entries except the last, the hash. An app may have a file of that name, too."""
    last: _Entry | None = None
    while (entry := _next_entry(source)) is not None:
        if last is not None:
            yield last
            last = None
        if entry.name == _SEAL_NAME and entry.kind == _FILE and entry.size == _SEAL_BYTES:
            entry.held = b"".join(_content(source, entry))
            last = entry
        else:
            yield entry
    if last is None:
        raise BadArchive("its end is missing")


def _next_entry(source: _Source) -> _Entry | None:
    """The next header, including its extended header; None at the end. The content is not read yet."""
    entry = _read_header(source.take(_BLOCK_BYTES))
    if entry is None or entry.kind != _PAX:
        return entry
    if entry.size > _MAX_PAX_BYTES:
        raise BadArchive("a header is too large")
    records = _read_pax(b"".join(_content(source, entry)))
    entry = _read_header(source.take(_BLOCK_BYTES))
    if entry is None or entry.kind == _PAX:
        raise BadArchive("an extended header has no entry")
    entry.name = _text(records[b"path"]) if b"path" in records else entry.name
    entry.target = _text(records[b"linkpath"]) if b"linkpath" in records else entry.target
    if b"size" in records:
        entry.size = _number(records[b"size"], 10)
    if entry.size and entry.kind != _FILE:
        raise BadArchive("an entry of a kind that is not allowed")
    return entry


def _read_header(block: bytes) -> _Entry | None:
    if not any(block):
        return None
    if _number(block[148:156], 8) != sum(block) - sum(block[148:156]) + 8 * 0x20:
        raise BadArchive("a header's checksum is wrong")
    prefix, name = _field(block[345:500]), _field(block[:100])
    entry = _Entry(
        kind=block[156:157],
        name=prefix + "/" + name if prefix else name,
        target=_field(block[157:257]),
        size=_number(block[124:136], 8),
        mode=_number(block[100:108], 8) & 0o777,
        mtime=_number(block[136:148], 8),
    )
    is_sized = entry.kind in (_FILE, _PAX) or entry.size == 0
    if entry.kind not in (_FILE, _LINK, _FOLDER, _PAX) or not is_sized:
        raise BadArchive("an entry of a kind that is not allowed")
    return entry


def _read_pax(data: bytes) -> dict[bytes, bytes]:
    """Records of the form `LENGTH KEY=VALUE\\n`; the length is that of the whole record."""
    records: dict[bytes, bytes] = {}
    while data:
        length = _number(data.split(b" ", 1)[0], 10)
        record, data = data[:length], data[length:]
        key, equals, value = record[:-1].partition(b" ")[2].partition(b"=")
        if not equals or len(record) != length or key in records or len(records) >= _MAX_PAX_RECORDS:
            raise BadArchive("a broken extended header")
        records[key] = value
    return records


def _number(digits: bytes, base: int) -> int:
    text = digits.strip(b" \0")
    if not text.isdigit() or len(text) > 20:
        raise BadArchive("a header has an invalid number")
    try:
        return int(text, base)
    except ValueError:
        raise BadArchive("a header has an invalid number") from None


def _field(data: bytes) -> str:
    # A name that is cut within a character is complete in the extended header.
    return _text(data.split(b"\0", 1)[0])


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _content(source: _Source, entry: _Entry) -> Iterator[bytes | memoryview]:
    if entry.held is not None:
        yield entry.held
        return
    yield from source.pieces(entry.size)
    source.take(-entry.size % _BLOCK_BYTES)


def stays_inside(name: str, target: str) -> bool:
    """Whether a link goes up only at its start, and no higher than the folder."""
    if target == "" or target.startswith("/") or "\0" in target:
        return False
    steps = target.split("/")
    ups = 0
    while ups < len(steps) and steps[ups] == "..":
        ups += 1
    return name.count("/") >= ups and ".." not in steps[ups:]


def _check_name(entry: _Entry, names: set[str]) -> None:
    """Raises for a name that is not plain, is repeated, or is not in an earlier folder."""
    is_folder = entry.kind == _FOLDER
    name = entry.name = entry.name[:-1] if is_folder and entry.name.endswith("/") else entry.name
    is_plain = "\0" not in name and not any(step in ("", ".", "..") for step in name.split("/"))
    # A folder, not a link: below that it could be anywhere.
    above = name[: name.rfind("/") + 1]
    is_in_folder = above == "" or above in names
    if not is_plain or is_too_long(name) or not is_in_folder or not names.isdisjoint((name, name + "/")):
        raise BadArchive("an entry has the invalid name %r" % name[:200])
    names.add(name + "/" if is_folder else name)


def is_too_long(name: str) -> bool:
    """Whether a name, or a link's target, is too long for a file system, or is not UTF-8."""
    is_text = not any("\ud800" <= character <= "\udfff" for character in name)
    return not is_text or len(name.encode()) > _MAX_NAME_BYTES or name.count("/") >= _MAX_DEPTH


def _write(source: _Source, entry: _Entry, target: str) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, entry.mode | 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for piece in _content(source, entry):
            file.write(piece)
        file.flush()
        os.fchmod(descriptor, entry.mode)
        # Python compares this time with the one in its compiled code.
        os.utime(descriptor, (entry.mtime, entry.mtime))
