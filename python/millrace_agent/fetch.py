"""What is large: fetched by its hash on a connection of its own, and whole before anything is done with it."""

from __future__ import annotations

import hashlib
import socket
import ssl
import time

from .channel import SERVER_NAME

_PIECE_BYTES = 256 * 1024
_SEAL_BYTES = 32
_SILENCE_SECONDS = 60.0
#: Between tries: a service turns connections away for a moment when too many come from one address.
_PAUSES_SECONDS = (0.5,) * 20
#: Of one archive, unpacked: far beyond any environment.
_MAX_BYTES = 256 * 1024**3


class NotFetched(Exception):
    """It did not come, or not as it is."""


def connect(context: ssl.SSLContext, address: tuple[str, int], preface: str) -> ssl.SSLSocket:
    """A connection of its own to the service, which begins with that line; perhaps not at the first try."""
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
    """Writes what the service sends to a new file. Its last 32 bytes are the SHA-256 of all before them.

    The service compares the blob with its name while it sends it, and sends those bytes only if it is the same.
    """
    digest = hashlib.sha256()
    count = 0
    # The end may be anywhere: so many bytes are always kept back.
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
