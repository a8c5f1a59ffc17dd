"""A line of the keeper's own in the app's log."""

from __future__ import annotations

import os
import socket
import stat

_STDERR = 2


def tell(text: str) -> None:
    """Writes a line to stderr. It is lost where that takes no more: the app fills it too, and the keeper must not wait.

    The descriptor's flags are shared with the app, so they are left as they are.
    """
    line = ("[millrace] %s\n" % text).encode()
    try:
        if stat.S_ISSOCK(os.fstat(_STDERR).st_mode):
            with socket.socket(fileno=os.dup(_STDERR)) as output:
                output.send(line, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        else:
            again = os.open("/proc/self/fd/%d" % _STDERR, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(again, line)
            finally:
                os.close(again)
    except OSError:
        pass  # It is full, or nothing reads it.
