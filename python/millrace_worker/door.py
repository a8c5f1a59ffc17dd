"""How a process behind walls calls home: no address is in its reach, so it asks the outer keeper for a connection."""

from __future__ import annotations

import os
import socket

#: In place of a socket's path or a host and port.
ADDRESS = "door"
#: What the outer keeper leaves open for its child.
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
    """A connection home that has shown this line already."""
    if _door is None:
        raise ConnectionError("there is no door")
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with mine:
        with theirs:
            socket.send_fds(_door, [preface], [theirs.fileno()])
        _, descriptors, _, _ = socket.recv_fds(mine, 1, 1, socket.MSG_CMSG_CLOEXEC)
    if not descriptors:
        raise ConnectionRefusedError("the service does not answer at the door")
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=descriptors[0])
