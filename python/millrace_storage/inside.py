"""How a path in a volume is followed: links may lead around inside, and nothing outside is opened."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

#: Under this name too an app sees its storage, and its links may say so.
_LITERAL = "/persistent-storage"
#: Others may read, as the mode of an upload always was.
_FOLDER_MODE = 0o755


#: Errors that mean that there is no such thing in the volume, or none that its user may see.
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP)


class Refused(Exception):
    """What the caller has to be told about a path, in words that the service knows."""


def open_inside(root: str, names: Sequence[str], flags: int = os.O_RDONLY) -> int:
    """Found first and opened when its real path is known; without waiting, as there may be a pipe."""
    found = os.open("/".join((root, *names)), os.O_PATH | os.O_CLOEXEC)
    try:
        here = "/proc/self/fd/%d" % found
        real = os.readlink(here)
        if real == root or real.startswith(root + "/"):
            return os.open(here, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(found)
    if real == _LITERAL or real.startswith(_LITERAL + "/"):
        # The same place by its own name: to move something between two names of it is not possible.
        return open_inside(root, [name for name in real[len(_LITERAL) :].split("/") if name], flags)
    # The same as if nothing were there: what is outside is nobody's business.
    raise FileNotFoundError(errno.ENOENT, "outside the volume")


def open_if_there(root: str, names: Sequence[str], flags: int = os.O_RDONLY) -> int | None:
    try:
        return open_inside(root, names, flags)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise


def open_folder(root: str, names: Sequence[str]) -> int:
    return open_inside(root, names, os.O_RDONLY | os.O_DIRECTORY)


def make_folder(root: str, names: Sequence[str]) -> int:
    """Opens a folder; those missing on the way to it are made."""
    for depth in range(1, len(names) + 1):
        above = open_folder(root, names[: depth - 1])
        try:
            os.mkdir(names[depth - 1], _FOLDER_MODE, dir_fd=above)
        except FileExistsError:
            pass
        finally:
            os.close(above)
    return open_folder(root, names)
