"""A process of the same user that lives behind no walls: listens on sockets that a hostile app may try to reach."""

import os
import socket
import sys

folder, name = sys.argv[1:]
kept: list[socket.socket] = []
for kind, address in (
    (socket.SOCK_DGRAM, os.path.join(folder, "datagram.sock")),
    (socket.SOCK_STREAM, "\0" + name),
    (socket.SOCK_DGRAM, "\0" + name + "-datagram"),
):
    listener = socket.socket(socket.AF_UNIX, kind)
    listener.bind(address)
    if kind == socket.SOCK_STREAM:
        listener.listen()
    kept.append(listener)
print("ready", flush=True)
sys.stdin.read()
