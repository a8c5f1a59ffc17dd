"""How an app's process calls home: behind walls no address is in its reach, so it asks its agent for a connection."""

from __future__ import annotations

import os
import socket

#: In place of a socket's path or a host and port.
ADDRESS = "door"
#: What the agent leaves open for its child.
DESCRIPTOR = 3

_door: socket.socket | None = None


def find() -> None:
    """Takes the door that this process was started with. Its own programs do not inherit it."""
    global _door
    os.set_inheritable(DESCRIPTOR, False)
    _door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=DESCRIPTOR)


def is_there() -> bool:
    """Whether this process is behind walls."""
    return _door is not None


def connect(preface: bytes) -> socket.socket:
    """A connection home on which this line has been sent already."""
    return as_connection(ask(preface)[0])


def as_connection(descriptor: int) -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=descriptor)


def ask(preface: bytes) -> list[int]:
    """The descriptors that the agent answers with: a connection home, and the file that it lends with it, if any."""
    if _door is None:
        raise ConnectionError("there is no door")
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with mine:
        with theirs:
            socket.send_fds(_door, [preface], [theirs.fileno()])
        _, descriptors, _, _ = socket.recv_fds(mine, 1, 2)
    if not descriptors:
        raise ConnectionRefusedError("the service does not answer at the door")
    # Here: Python before 3.12 ignores flags of recv_fds, and what the app starts would hold its replica's connections.
    for each in descriptors:
        os.set_inheritable(each, False)
    return descriptors
