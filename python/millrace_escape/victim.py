"""A process of the same user behind no walls, which a hostile app may try to reach in every way there is.

Says where it is in one line of JSON. When its stdin ends, it removes all it made and ends: it never outlives the
process that started it.
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
#: So many segments a hostile app may make, from a number on that depends on this process's.
_FILLERS = 256
_FIRST_FILLER = 1 << 30
_libc = ctypes.CDLL(None)


def main() -> None:
    folder = tempfile.mkdtemp(prefix="millrace-victim-")
    name = os.path.basename(folder)
    shared = "/dev/shm/" + name
    filler = name + "-filler"
    filler_key = _FIRST_FILLER + os.getpid() * _FILLERS % _FIRST_FILLER
    segment = -1
    kept: list[socket.socket] = []
    try:
        for kind, address in (
            (socket.SOCK_DGRAM, os.path.join(folder, "datagram.sock")),
            # Like that of the container daemon: a process that reaches it has the whole machine.
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
        fillers = {"filler": filler, "filler_key": filler_key}
        print(json.dumps({"folder": folder, "abstract": name, "memory_key": os.getpid(), **fillers}), flush=True)
        sys.stdin.read()
    finally:
        if segment >= 0:
            _libc.shmctl(segment, _REMOVE, None)
        shutil.rmtree(folder, ignore_errors=True)
        # What a hostile app was killed with, where it shares memory with the host.
        for path in (shared, "/dev/shm/" + filler):
            if os.path.exists(path):
                os.unlink(path)
        for number in range(_FILLERS):
            left = _libc.shmget(filler_key + number, 0, 0)
            if left >= 0:
                _libc.shmctl(left, _REMOVE, None)


main()
