"""The port of an app's own server, which may be written in its code.

Each replica has its own port, in the `PORT` variable. A server that ignores that binds the port that its configuration
declares, as do all its replicas. So a bind to the declared port takes the replica's own port instead, and a connection
to it on this machine leads there.
"""

from __future__ import annotations

import os
import socket
import stat

_STDERR = 2


class AppLog:
    """The app's stderr: the agent's own, or either end of a pipe."""

    def __init__(self, output: int = _STDERR) -> None:
        self._output = os.dup(output)

    def tell(self, text: str) -> None:
        """Adds a line, or drops it if there is no room: the app can fill the log, and the keeper must not wait. The
        descriptor's flags are shared with the app, so they must not change.
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


_IN_USE = (
    "cannot listen on TCP port %d: another replica of this app or another program uses it. "
    "Have the server use a free port there (port 0), or set max_replicas = 1"
)
_BOTH = (
    "cannot listen on PORT (%d): the server already listens on %d, which stands for the same port. "
    "Set runtime.custom.port to a port that the server does not use"
)
#: How many ports in use are reported: a program may try one after the other.
_MAX_TOLD = 4


class ServerPort:
    """The two numbers of a replica's port. `own` is 0 for an app that is no server: then nothing is replaced."""

    def __init__(self, declared: int, own: int, log: AppLog | None) -> None:
        self._log = log
        self._declared = declared
        self._own = own
        #: Which of the two numbers the app bound first; 0 until then.
        self._first = 0
        #: The app has bound its own port and then the declared one: those are two different ports then.
        self._is_apart = False
        self._told: set[int] = set()

    def is_own(self, port: int) -> bool:
        return port == self._own

    def to_bind(self, port: int) -> int:
        return self._own if self._is_declared(port) and self._first != self._own else port

    def to_connect(self, port: int) -> int:
        """The port to which a connection on this machine leads."""
        return self._own if self._is_declared(port) and not self._is_apart else port

    def note_bound(self, port: int) -> None:
        """Notes that the app has bound the port that it asked for."""
        if self._is_declared(port) or port == self._own:
            self._first = self._first or port
            self._is_apart = self._is_apart or (self._first == self._own and self._is_declared(port))

    def note_in_use(self, port: int) -> None:
        """Logs what to do about a port that the app could not bind."""
        if self._log is None or self.to_bind(port) != port or port in self._told or len(self._told) >= _MAX_TOLD:
            return
        self._told.add(port)
        if port != self._own:
            self._log.tell(_IN_USE % port)
        elif self._first == self._declared:
            self._log.tell(_BOTH % (port, self._declared))

    def _is_declared(self, port: int) -> bool:
        return self._own > 0 and port == self._declared != self._own
