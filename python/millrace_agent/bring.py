"""Brings an app's files into a seat: fetched by hash, unpacked, and fitted to this place."""

from __future__ import annotations

import errno
import os
import ssl

from . import fit
from .child import PYTHON
from .fetch import NotFetched, fetch
from .order import SeatOrder, Sitting
from .pack import Unpackable
from .unpack import BadArchive, unpack
from .walled import Around, NoWalls, Probing


class Files:
    """Where they are."""

    def __init__(self, bundle: str, python: str, environment: str | None) -> None:
        #: The seat's own, which holds them all.
        self.folder = os.path.dirname(bundle)
        self.bundle = bundle
        #: The app's interpreter.
        self.python = python
        #: Its packages; None when there are none.
        self.environment = environment
        #: What the app will live behind; None where nothing was asked for.
        self.around: Around | None = None


class Blobs:
    """What the service has for this seat."""

    def __init__(self, context: ssl.SSLContext, address: tuple[str, int], seat_id: str, secret: str) -> None:
        self._context = context
        self._address = address
        self._proof = "%s %s" % (seat_id, secret)

    def unpack(self, blob: str, to: str, given: str | None = None) -> bytes | None:
        """Fetches a blob, and unpacks it into a new folder once it is whole."""
        packed = to + ".packed"
        fetch(self._context, self._address, "millrace 1 blob %s %s" % (self._proof, blob), packed)
        os.mkdir(to, 0o755)
        answer = unpack(packed, to, given)
        os.unlink(packed)
        return answer


def bring(blobs: Blobs, order: SeatOrder, sit: Sitting, folder: str) -> Files:
    """Fetches an app into a folder, and finds out meanwhile what it can live behind."""
    probing = None if sit.walls is None else Probing(folder)
    files = _fetch_all(blobs, sit, folder)
    if sit.walls is not None and probing is not None:
        files.around = probing.found(sit.walls, order.neighbours)
    return files


def _fetch_all(blobs: Blobs, sit: Sitting, folder: str) -> Files:
    """Bundle and environment; nothing of them is used before it is whole."""
    bundle = os.path.join(folder, "bundle")
    blobs.unpack(sit.bundle, bundle)
    if sit.environment is None:
        return Files(bundle, PYTHON, None)
    environment = os.path.join(folder, "environment")
    return Files(bundle, bring_environment(blobs, sit.environment, environment), environment)


def bring_environment(blobs: Blobs, blob: str, to: str) -> str:
    """Fetches an environment into a new folder, and gives its interpreter."""
    return fit.fit(to, blobs.unpack(blob, to, fit.READY))


def why_not(error: BaseException) -> str:
    """Why an app could not be brought, for people."""
    return str(error) if isinstance(error, NoWalls) else "its files could not be fetched: %s" % describe(error)


def describe(error: BaseException) -> str:
    """What went wrong in a start, for people."""
    if isinstance(error, (NotFetched, BadArchive, Unpackable)):
        return str(error)
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return "its secrets are too large to pass as environment variables"
    return "%s: %s" % (type(error).__name__, error)
