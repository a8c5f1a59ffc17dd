"""Whether a process can use an interpreter of the host, and what keeps it from that."""

from __future__ import annotations

import os

from .places import home_of

_REMEDY = "install it where every user may read it, such as in /opt, or open that to others with chmod"


class Interpreter:
    """A Python of the host, and the files that it cannot start without, as seen from outside the walls."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._program = os.path.realpath(path)
        self._library = _library(self._program, path)

    def why_not(self) -> str | None:
        """Why this process, as it is now, cannot run it; None where nothing is known against it."""
        why = None if os.access(self._program, os.X_OK) else _obstacle(self._program, os.X_OK)
        if why is None and self._library is not None and not _is_readable(self._library):
            why = _obstacle(self._library, os.R_OK)
        return why and "its Python, %s, is out of its reach: %s" % (self._path, why)


def _library(program: str, path: str) -> str | None:
    """The first file of its library that it reads; None if that is not where it usually is."""
    # A copy in a virtual environment has the library of the Python that the environment was made with.
    home = home_of(os.path.dirname(os.path.dirname(path)))
    for folder in (os.path.dirname(program), home or ""):
        for lib in ("lib", "lib64"):
            library = os.path.join(os.path.dirname(folder), lib, os.path.basename(program), "os.py")
            if os.path.exists(library):
                return library
    return None


def _is_readable(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _obstacle(path: str, needed: int) -> str:
    """What keeps this process from a file: the first on the way whose mode does, or else the walls."""
    here = "/"
    for part in path.split("/")[1:]:
        if not os.access(here, os.X_OK):
            break
        here = os.path.join(here, part)
    if not os.path.exists(here) or (here == path and os.access(here, needed)):
        return "an app does not see %s" % here
    found = os.stat(here)
    owner = "the app's own user" if found.st_uid == os.geteuid() else "another user"
    return "%s has mode %04o and belongs to %s; %s" % (here, found.st_mode & 0o7777, owner, _REMEDY)
