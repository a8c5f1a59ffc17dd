"""A connection to a service by TLS 1.3, which never blocks.

Records go through memory: one read of the socket takes all that has arrived, and one write sends all that is encrypted.
A socket wrapped by `ssl` makes three system calls for each record.
"""

from __future__ import annotations

import errno
import socket
import ssl

from .loop import IN, OUT, Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Owner(Protocol):
        """The user of a channel."""

        def on_open(self) -> None: ...
        def on_data(self, data: memoryview) -> bool:
            """Takes received bytes, which are overwritten afterwards. Returns False to pause until `resume`."""
            ...

        def on_drained(self) -> None:
            """The kernel has taken all that was sent."""

        def on_end(self, is_orderly: bool) -> None:
            """The service sends nothing more; if the end is not orderly, the connection is lost."""


#: The name in the certificate of every service of an installation; it is never resolved.
SERVER_NAME = "home.seats.millrace.internal"

#: A connection without an answer for 30 s is lost: a device on the path may have forgotten an idle one.
_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000),
)
_BYTES = 256 * 1024
_RECORD_BYTES = 16 * 1024
# Shared: one thread works with one channel at a time, and leaves nothing in them.
_raw = bytearray(_BYTES)
_raw_view = memoryview(_raw)
_plain = bytearray(_BYTES)
_plain_view = memoryview(_plain)


def trust(authority: str) -> ssl.SSLContext:
    """Trusts only the certificates of that authority, given as PEM."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority)
    return context


class Channel:
    """One such connection. `first` is sent as soon as it is open."""

    def __init__(self, loop: Loop, context: ssl.SSLContext, address: tuple[str, int], first: bytes, owner: Owner):
        self._loop = loop
        self._owner = owner
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=SERVER_NAME)
        self._first = first
        self._unsent = b""
        self._is_open = False
        self._is_paused = False
        self._is_ending = False
        self._has_ended = False
        self._is_closed = False
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._descriptor = self._socket.fileno()
        for level, option, value in _OPTIONS:
            self._socket.setsockopt(level, option, value)
        self._events = IN | OUT
        loop.watch(self._descriptor, self._events, self._act)
        error = self._socket.connect_ex(address)
        if error not in (0, errno.EINPROGRESS):
            loop.wake()  # The owner hears of it in the next round, as of any other end: the socket is ready by then.

    @property
    def is_full(self) -> bool:
        """Whether the kernel has not taken all that was sent."""
        return len(self._unsent) > 0

    def send(self, data: bytes | memoryview) -> None:
        if self._is_closed or self._is_ending:
            return
        write = self._tls.write
        try:
            sent = write(data)
            if sent < len(data):
                view = memoryview(data)
                while sent < len(view):
                    sent += write(view[sent:])
        except ssl.SSLError:
            self._fail()
            return
        self._flush()

    def pause(self) -> None:
        self._is_paused = True
        self._set_events(self._events & ~IN)

    def resume(self) -> None:
        if self._is_closed:
            return
        self._is_paused = False
        self._decrypt()
        if not self._is_paused and not self._is_closed:
            self._set_events(self._events | IN)

    def end(self) -> None:
        """Sends nothing more, but still receives."""
        if self._is_closed or self._is_ending:
            return
        self._is_ending = True
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            pass  # It waits for the service's own closing message.
        self._flush()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.forget(self._descriptor)
        self._socket.close()

    def _act(self, events: int) -> None:
        if events & IN:
            self._receive()
        elif events & ~OUT:
            self._fail()  # Reading is paused, and both directions are closed.
        if events & OUT and not self._is_closed:
            self._flush()

    def _receive(self) -> None:
        try:
            count = self._socket.recv_into(_raw)
        except BlockingIOError:
            return
        except OSError:
            self._fail()
            return
        if count == 0:
            self._incoming.write_eof()
        else:
            self._incoming.write(_raw_view[:count])
        if self._is_open or self._greet():
            self._decrypt()

    def _greet(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except ssl.SSLError:
            self._fail()
            return False
        self._is_open = True
        self._owner.on_open()
        self.send(self._first)
        return not self._is_closed

    def _decrypt(self) -> None:
        """Hands received bytes to the owner, many records at a time."""
        if not self._is_open:
            return
        read: Any = self._tls.read
        incoming = self._incoming
        more = self._tls.pending
        is_over = False
        while not (is_over or self._is_paused or self._is_closed or self._has_ended):
            at = 0
            try:
                while at <= _BYTES - _RECORD_BYTES:
                    count = read(_RECORD_BYTES, _plain_view[at:])
                    if count == 0:
                        self._has_ended = True
                        break
                    at += count
                    # Reading without data would raise an error, which takes as long as all the rest.
                    if not incoming.pending and not more():
                        is_over = True
                        break
            except ssl.SSLWantReadError:
                is_over = True
            except ssl.SSLZeroReturnError:
                self._has_ended = True
            except ssl.SSLError:
                self._fail()
                return
            if at > 0 and not self._owner.on_data(_plain_view[:at]):
                self.pause()
        if self._has_ended and not self._is_closed and not self._is_paused:
            self._set_events(self._events & ~IN)
            self._owner.on_end(True)

    def _flush(self) -> None:
        if not self._is_open and not self._begin_handshake():
            return
        was_full = len(self._unsent) > 0
        made = self._outgoing.read()
        data = self._unsent + made if was_full else made
        try:
            sent = self._socket.send(data) if data else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self._fail()
            return
        if sent < len(data):
            self._unsent = data[sent:]
            self._set_events(self._events | OUT)
            return
        if was_full:
            self._unsent = b""
        self._set_events(self._events & ~OUT)
        if not self._is_ending:
            if was_full:
                self._owner.on_drained()
            return
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # The service was faster.
        if self._has_ended:
            self.close()
            self._owner.on_end(True)

    def _begin_handshake(self) -> bool:
        """Returns whether the connection is established."""
        if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._fail()
            return False
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self._fail()
            return False
        return True

    def _set_events(self, events: int) -> None:
        if events != self._events and not self._is_closed:
            self._events = events
            self._loop.change(self._descriptor, events)

    def _fail(self) -> None:
        if self._is_closed:
            return
        self.close()
        self._owner.on_end(False)
