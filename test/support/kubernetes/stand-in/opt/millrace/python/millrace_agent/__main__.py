"""Plays the agent of a seat: it calls home in plain TCP, says its ticket, and then does what that says."""

from __future__ import annotations

import json
import os
import socket
import sys
import time


def main() -> None:
    with open(sys.argv[1], encoding="utf8") as file:
        order = json.load(file)
    ticket: str = order["ticket"]
    host, _, port = order["addresses"][0].rpartition(":")
    home = socket.create_connection((host, int(port)))
    home.sendall(f"{ticket}\n{json.dumps(_seen())}\n".encode())
    word, _, value = ticket.partition(" ")
    if word == "exit":
        sys.exit(int(value))
    if word == "memory":
        _fill()
    # Until the pod ends, or whoever it called does.
    while home.recv(4096):
        pass


def _seen() -> dict[str, object]:
    """What a pod sees of its surroundings."""
    try:
        with open("/etc/written", "w", encoding="utf8"):
            is_writable = True
    except OSError:
        is_writable = False
    return {
        "uid": os.getuid(),
        "variables": sorted(os.environ),
        "has_token": os.path.exists("/var/run/secrets/kubernetes.io"),
        "is_root_writable": is_writable,
        "folders": [path for path in ("/work", "/tmp", "/dev/shm") if os.access(path, os.W_OK)],
    }


def _fill() -> None:
    held = []
    while True:
        held.append(b"x" * 10_000_000)
        time.sleep(0)


main()
