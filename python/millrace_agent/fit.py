"""Makes an environment that was built elsewhere fit this place and this interpreter, as the services do."""

from __future__ import annotations

import os
import re
import stat
import sys

from .unpack import BadArchive

#: What the service leaves in an environment: where it was made.
READY = "ready"
_MAX_BYTES = 1024 * 1024
#: What every kernel reads of a script's first line.
_MAX_FIRST_LINE = 127
#: What a path goes on with: next to one of these it is a part of another.
_OF_PATH = re.compile(r"[\w.\-]")


def fit(folder: str, made_at: bytes | None, python: str = os.path.realpath(sys.executable)) -> str:
    """Gives the environment's interpreter. `made_at` is what its marker said."""
    source = (made_at or b"").decode("utf-8", "strict")
    if not source.startswith("/"):
        raise BadArchive("it does not say where it was made")
    _link(folder, python)
    settings = os.path.join(folder, "pyvenv.cfg")
    text = (_small(settings) or b"").decode("utf-8", "strict")
    # Without it a Python takes the environment for none.
    if text == "":
        raise BadArchive("it has no pyvenv.cfg that could be read")
    text = re.sub(r"^home *=.*$", lambda _: "home = " + os.path.dirname(python), text, count=1, flags=re.M)
    text = re.sub(r"^executable *=.*$", lambda _: "executable = " + python, text, count=1, flags=re.M)
    _replace(settings, text)
    if source != folder:
        scripts = os.path.join(folder, "bin")
        for file in [settings, *sorted(os.path.join(scripts, name) for name in os.listdir(scripts))]:
            _rewrite(file, source, folder)
    return os.path.join(folder, "bin", "python")


def _link(folder: str, python: str) -> None:
    bin_folder = os.path.join(folder, "bin")
    if os.path.islink(bin_folder) or not os.path.isdir(bin_folder):
        raise BadArchive("it has no folder bin")
    for name in ("python", "python3", "python%d.%d" % sys.version_info[:2]):
        link = os.path.join(bin_folder, name)
        if not os.path.lexists(link):
            os.symlink(python, link)


def _rewrite(file: str, source: str, folder: str) -> None:
    content = _small(file)
    # Programs, and whatever else is no text, are not touched.
    if content is None or b"\0" in content:
        return
    try:
        text = content.decode("utf-8", "strict")
    except UnicodeDecodeError:
        return
    changed = _startable(_replace_whole(text, source, folder), folder)
    if changed != text:
        _replace(file, changed)


def _replace_whole(text: str, source: str, target: str) -> str:
    """Replaces a path, but not where it is a part of another one."""
    first, *pieces = text.split(source)
    whole = first
    for piece in pieces:
        is_part = _OF_PATH.match(whole[-1:]) or _OF_PATH.match(piece[:1])
        whole += (source if is_part else target) + piece
    return whole


def _startable(script: str, folder: str) -> str:
    """A first line that is too long for the kernel, or has a space in it, becomes one that the shell reads."""
    first = script.split("\n", 1)[0]
    is_own = first.startswith("#!%s/" % folder)
    if not is_own or (len(first) <= _MAX_FIRST_LINE and " " not in folder):
        return script
    python = os.path.join(folder, "bin", "python")
    return "#!/bin/sh\n'''exec' \"%s\" \"$0\" \"$@\"\n' '''%s" % (python, script[len(first) :])


def _small(file: str) -> bytes | None:
    """A file of the archive, unless it is a link or large; None for that."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as opened:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
            return None
        return opened.read(_MAX_BYTES)


def _replace(file: str, text: str) -> None:
    mode = stat.S_IMODE(os.lstat(file).st_mode)
    other = file + ".new"
    descriptor = os.open(other, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode | 0o200)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(text.encode())
        os.fchmod(descriptor, mode)
    os.rename(other, file)
