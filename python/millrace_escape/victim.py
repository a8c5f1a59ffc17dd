"""A process of the same user behind no walls, which a hostile app may try to reach in every way there is.

Says where it is in one line of JSON. Ends, and takes all it made with it, when its stdin ends: nothing of it outlives
whoever started it, however that ended.
"""

import ctypes
import json
import os
import shutil
import socket
import sys
import tempfile

_CREATE, _EXCLUSIVE, _REMOVE = 0o1000, 0o2000, 0
_PAGE_BYTES = 4096
_libc = ctypes.CDLL(None)


def main() -> None:
    folder = tempfile.mkdtemp(prefix="millrace-victim-")
    name = os.path.basename(folder)
    shared = "/dev/shm/" + name
    segment = -1
    kept: list[socket.socket] = []
    try:
        for kind, address in (
            (socket.SOCK_DGRAM, os.path.join(folder, "datagram.sock")),
            # As the daemon of containers has one, which gives whoever reaches it the whole machine.
            (socket.SOCK_STREAM, os.path.join(folder, "docker.sock")),
            (socket.SOCK_STREAM, "\0" + name),
            (socket.SOCK_DGRAM, "\0" + name + "-datagram"),
        ):
            listener = socket.socket(socket.AF_UNIX, kind)
            listener.bind(address)
            if kind == socket.SOCK_STREAM:
                listener.listen()
            kept.append(listener)
        # What processes share by name: memory, and System V memory by a number.
        with open(shared, "x", encoding="ascii") as file:
            file.write("of the host")
        segment = _libc.shmget(os.getpid(), _PAGE_BYTES, _CREATE | _EXCLUSIVE | 0o600)
        print(json.dumps({"folder": folder, "abstract": name, "memory_key": os.getpid()}), flush=True)
        sys.stdin.read()
    finally:
        if segment >= 0:
            _libc.shmctl(segment, _REMOVE, None)
        shutil.rmtree(folder, ignore_errors=True)
        if os.path.exists(shared):
            os.unlink(shared)


main()
