"""Brings an app's files into a seat: fetched by hash, unpacked, and fitted to this place."""

from __future__ import annotations

import errno
import os
import ssl

from . import fit
from .child import PYTHON
from .fetch import NotFetched, fetch
from .order import SeatOrder, Session
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


def bring(context: ssl.SSLContext, address: tuple[str, int], order: SeatOrder, session: Session, folder: str) -> Files:
    """Fetches an app into a folder, and finds out meanwhile what it can live behind."""
    walls = session.sit.walls
    probing = None if walls is None else Probing(folder)
    files = _fetch_all(context, address, order.seat_id, session, folder)
    if walls is not None and probing is not None:
        files.around = probing.found(walls, order.neighbours)
    return files


def _fetch_all(context: ssl.SSLContext, address: tuple[str, int], seat_id: str, session: Session, folder: str) -> Files:
    """Bundle and environment; nothing of them is used before it is whole."""
    packed = os.path.join(folder, "packed")
    bundle = os.path.join(folder, "bundle")
    environment = os.path.join(folder, "environment")

    def unpacked(blob: str, to: str, given: str | None = None) -> bytes | None:
        fetch(context, address, "millrace 1 blob %s %s %s" % (seat_id, session.secret, blob), packed)
        os.mkdir(to, 0o755)
        answer = unpack(packed, to, given)
        os.unlink(packed)
        return answer

    unpacked(session.sit.bundle, bundle)
    if session.sit.environment is None:
        return Files(bundle, PYTHON, None)
    made_at = unpacked(session.sit.environment, environment, fit.READY)
    return Files(bundle, fit.fit(environment, made_at), environment)


def why_not(error: BaseException) -> str:
    """Why an app could not be brought, for people."""
    return str(error) if isinstance(error, NoWalls) else "its files could not be fetched: %s" % describe(error)


def describe(error: BaseException) -> str:
    """What went wrong in a start, for people."""
    if isinstance(error, (NotFetched, BadArchive)):
        return str(error)
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return "its secrets are too large to pass as environment variables"
    return "%s: %s" % (type(error).__name__, error)
