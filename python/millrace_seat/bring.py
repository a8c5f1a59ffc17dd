"""Brings an app's files into a seat: fetched by hash, unpacked, and fitted to this place."""

from __future__ import annotations

import errno
import os
import ssl
import sys

from . import fit
from .fetch import NotFetched, fetch
from .order import Session, Sitting
from .unpack import BadArchive, unpack


class Files:
    """Where they are."""

    def __init__(self, bundle: str, python: str, environment: str | None) -> None:
        self.bundle = bundle
        #: The app's interpreter.
        self.python = python
        #: Its packages; None when there are none.
        self.environment = environment


def bring(context: ssl.SSLContext, address: tuple[str, int], seat_id: str, session: Session, folder: str) -> Files:
    """Fetches bundle and environment into a folder; nothing of them is used before it is whole."""
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
        return Files(bundle, os.path.realpath(sys.executable), None)
    made_at = unpacked(session.sit.environment, environment, fit.READY)
    return Files(bundle, fit.fit(environment, made_at), environment)


def storage_of(sit: Sitting, folder: str) -> str:
    """The project's storage, if this place has it; else a folder that goes with the seat."""
    if os.path.isdir(sit.storage) and os.access(sit.storage, os.W_OK):
        return sit.storage
    own = os.path.join(folder, "storage")
    os.makedirs(own, exist_ok=True)
    return own


def describe(error: BaseException) -> str:
    """What went wrong in a start, for people."""
    if isinstance(error, (NotFetched, BadArchive)):
        return str(error)
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return "its secrets are too large to pass as environment variables"
    return "%s: %s" % (type(error).__name__, error)
