"""An app's own server below the agent: a keeper whose ward becomes the program that its author named."""

from __future__ import annotations

import os
import socket
import sys

from millrace_worker import keeper, linux

_LISTENING = "0A"


def main() -> None:
    """`sys.argv` is `-c`, the bundle's folder, the program and its arguments. It begins with a byte on stdin."""
    owner = os.getppid()
    if not os.read(0, 1):
        os._exit(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    linux.close_inherited(3)
    os.chdir(sys.argv[1])
    keeper.keep(_serve, owner)


def listens(port: int) -> bool:
    """Whether anybody in this place takes connections there."""
    wanted = "%04X" % port
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as rows:
                for row in rows:
                    words = row.split()
                    if words[3] == _LISTENING and words[1].endswith(":" + wanted):
                        return True
        except OSError:
            pass  # A kernel without IPv6.
    return False


def dial(port: int) -> socket.socket:
    """A connection to the server, which may not stand yet."""
    local = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    local.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    local.connect_ex(("127.0.0.1", port))
    return local


def _serve() -> None:
    program, *rest = sys.argv[2:]
    try:
        os.execvp(program, [program, *rest])
    except OSError as error:
        print("the app cannot start: %s: %s" % (program, error.strerror), file=sys.stderr, flush=True)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
