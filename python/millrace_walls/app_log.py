"""Lines of the agent's own in the app's log."""

from __future__ import annotations

import os
import socket
import stat

_STDERR = 2


class AppLog:
    """The app's stderr: the one that its agent starts with, or either end of the pipe that it is."""

    def __init__(self, output: int = _STDERR) -> None:
        self._output = os.dup(output)

    def tell(self, text: str) -> None:
        """Adds a line. It is lost where there is no room: the app can fill the log, and the keeper must not wait.

        The descriptor's flags are shared with the app, so they stay as they are.
        """
        line = ("[millrace] %s\n" % text).encode()
        try:
            if stat.S_ISSOCK(os.fstat(self._output).st_mode):
                with socket.socket(fileno=os.dup(self._output)) as output:
                    output.send(line, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            else:
                again = os.open("/proc/self/fd/%d" % self._output, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    os.write(again, line)
                finally:
                    os.close(again)
        except OSError:
            pass  # It is full, or nothing reads it.
