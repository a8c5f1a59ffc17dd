"""Brings an app's files into a seat: fetches them by hash, unpacks them, and adapts them to this machine."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import socket
import ssl
import stat
import sys
import time

from .app import Files, NoWalls, begin_probe, probed
from .channel import SERVER_NAME
from .child import PYTHON
from .order import Assignment, SeatOrder
from .pack import Unpackable
from .unpack import BadArchive, unpack

_PIECE_BYTES = 256 * 1024
_SEAL_BYTES = 32
_SILENCE_SECONDS = 60.0
#: Between attempts: a service refuses connections for a moment when too many come from one address.
_PAUSES_SECONDS = (0.5,) * 20
#: Of one archive, unpacked: far beyond any environment.
_MAX_BYTES = 256 * 1024**3


class NotFetched(Exception):
    """A file did not arrive, or arrived damaged."""


def connect(context: ssl.SSLContext, address: tuple[str, int], preface: str) -> ssl.SSLSocket:
    """Opens a connection that begins with that line; tries several times."""
    for pause in _PAUSES_SECONDS:
        try:
            return _connect(context, address, preface)
        except (ConnectionError, ssl.SSLEOFError):
            time.sleep(pause)
    return _connect(context, address, preface)


def _connect(context: ssl.SSLContext, address: tuple[str, int], preface: str) -> ssl.SSLSocket:
    plain = socket.create_connection(address, _SILENCE_SECONDS)
    try:
        home = context.wrap_socket(plain, server_hostname=SERVER_NAME)
        home.sendall(preface.encode("ascii") + b"\n")
    except BaseException:
        plain.close()
        raise
    return home


def fetch(context: ssl.SSLContext, address: tuple[str, int], preface: str, to: str) -> None:
    """Writes what the service sends to a new file, except the last 32 bytes: the SHA-256 of all before them.

    The service sends that hash only if the blob was what its name says.
    """
    digest = hashlib.sha256()
    count = 0
    # The hash may be split between pieces, so the last bytes are always kept back.
    tail = b""
    with open(to, "xb") as file, connect(context, address, preface) as home:
        while piece := home.recv(_PIECE_BYTES):
            data = tail + piece
            tail = data[-_SEAL_BYTES:]
            whole = data[: -len(tail)]
            count += len(whole)
            if count > _MAX_BYTES:
                raise NotFetched("it is larger than anything that may be fetched")
            digest.update(whole)
            file.write(whole)
    if tail != digest.digest():
        raise NotFetched("it did not arrive whole")


#: The file in an environment that says in which folder it was made.
READY = "ready"
_MAX_TEXT_BYTES = 1024 * 1024
#: How much longer all scripts of an environment may become: each names its folder a few times.
_MAX_GROWN_CHARS = 64 * 1024 * 1024
#: How much every kernel reads of a script's first line.
_MAX_FIRST_LINE = 127
#: Next to one of these characters a path is part of another one.
_OF_PATH = re.compile(r"[\w.\-]")


def fit(folder: str, made_at: bytes | None, python: str = os.path.realpath(sys.executable)) -> str:
    """Adapts an environment to its new folder; returns its interpreter. `made_at` is the content of its marker."""
    source = (made_at or b"").decode("utf-8", "strict")
    if not source.startswith("/"):
        raise BadArchive("it does not say where it was made")
    scripts = os.path.join(folder, "bin")
    if os.path.islink(scripts) or not os.path.isdir(scripts):
        raise BadArchive("it has no folder bin")
    for name in ("python", "python3", "python%d.%d" % sys.version_info[:2]):
        link = os.path.join(scripts, name)
        if not os.path.lexists(link):
            os.symlink(python, link)
    settings = os.path.join(folder, "pyvenv.cfg")
    text = (_small(settings) or b"").decode("utf-8", "strict")
    # Without it Python does not treat the folder as an environment.
    if text == "":
        raise BadArchive("it has no pyvenv.cfg that could be read")
    text = re.sub(r"^home *=.*$", lambda _: "home = " + os.path.dirname(python), text, count=1, flags=re.M)
    text = re.sub(r"^executable *=.*$", lambda _: "executable = " + python, text, count=1, flags=re.M)
    _replace(settings, text)
    if source != folder:
        left = _MAX_GROWN_CHARS
        for file in [settings, *sorted(os.path.join(scripts, name) for name in os.listdir(scripts))]:
            left -= _rewrite(file, source, folder)
            if left < 0:
                raise BadArchive("its scripts name the place where it was made too often")
    return os.path.join(folder, "bin", "python")


def _rewrite(file: str, source: str, folder: str) -> int:
    """Replaces the old folder in a text file; returns by how much that grew. Other files stay as they are."""
    try:
        text = (_small(file) or b"").decode("utf-8", "strict")
    except UnicodeDecodeError:
        return 0
    if "\0" in text:
        return 0
    changed = _startable(_replace_whole(text, source, folder), folder)
    if changed != text:
        _replace(file, changed)
    return max(0, len(changed) - len(text))


def _replace_whole(text: str, source: str, target: str) -> str:
    """Replaces a path, except where it is a part of another one."""
    first, *pieces = text.split(source)
    whole = first
    for piece in pieces:
        is_part = _OF_PATH.match(whole[-1:]) or _OF_PATH.match(piece[:1])
        whole += (source if is_part else target) + piece
    return whole


def _startable(script: str, folder: str) -> str:
    """Has the shell start a script whose first line is too long for the kernel, or has a space in it."""
    first = script.split("\n", 1)[0]
    is_own = first.startswith("#!%s/" % folder)
    if not is_own or (len(first) <= _MAX_FIRST_LINE and " " not in folder):
        return script
    python = os.path.join(folder, "bin", "python")
    return "#!/bin/sh\n'''exec' \"%s\" \"$0\" \"$@\"\n' '''%s" % (python, script[len(first) :])


def _small(file: str) -> bytes | None:
    """The content of a file of the archive; None for a link, a folder or a large file."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        is_small = stat.S_ISREG(found.st_mode) and found.st_size <= _MAX_TEXT_BYTES
        return os.read(descriptor, _MAX_TEXT_BYTES) if is_small else None
    finally:
        os.close(descriptor)


def _replace(file: str, text: str) -> None:
    mode = stat.S_IMODE(os.lstat(file).st_mode)
    other = file + ".new"
    descriptor = os.open(other, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode | 0o200)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(text.encode())
        os.fchmod(descriptor, mode)
    os.rename(other, file)


class Blobs:
    def __init__(self, context: ssl.SSLContext, address: tuple[str, int], seat_id: str, secret: str) -> None:
        self._context = context
        self._address = address
        self._proof = "%s %s" % (seat_id, secret)

    def unpack(self, blob: str, to: str, given: str | None = None) -> bytes | None:
        """Fetches a blob, then unpacks it into a new folder."""
        packed = to + ".packed"
        fetch(self._context, self._address, "millrace 1 blob %s %s" % (self._proof, blob), packed)
        os.mkdir(to, 0o755)
        answer = unpack(packed, to, given)
        os.unlink(packed)
        return answer

    def bring_environment(self, blob: str, to: str) -> str:
        """Fetches an environment into a new folder; returns its interpreter."""
        return fit(to, self.unpack(blob, to, READY))


def bring(blobs: Blobs, order: SeatOrder, assignment: Assignment, folder: str) -> Files:
    """Fetches an app into a folder, and meanwhile finds out which walls it can have."""
    probe = None if assignment.walls is None else begin_probe(folder)
    bundle = os.path.join(folder, "bundle")
    blobs.unpack(assignment.bundle, bundle)
    files = Files(bundle, PYTHON, None)
    if assignment.environment is not None:
        environment = os.path.join(folder, "environment")
        files = Files(bundle, blobs.bring_environment(assignment.environment, environment), environment)
    if assignment.walls is not None and probe is not None:
        files.around = probed(probe, assignment.walls, order.neighbours)
    return files


def why_not(error: BaseException) -> str:
    """Tells a person why an app's files could not be brought."""
    return str(error) if isinstance(error, NoWalls) else "its files could not be fetched: %s" % describe(error)


def describe(error: BaseException) -> str:
    if isinstance(error, (NotFetched, BadArchive, Unpackable)):
        return str(error)
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return "its secrets are too large to pass as environment variables"
    return "%s: %s" % (type(error).__name__, error)
