"""Relays the harness's connections to the service: bytes in both directions, with backpressure in both.

Each direction ends by itself: the service closes a wire after the last call, and the replica still has to answer.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections.abc import Callable

from .channel import Channel
from .handover import Pipe, Template
from .loop import IN, OUT, Loop

#: Four for each replica, three for a template; an app could open them without end.
_MAX_RELAYS = 4096
_BACKLOG = 1024
#: The longest first line that a service accepts.
_PREFACE_BYTES = 128
#: Those of a template's connections that outlive its service.
_LASTING = ("template", "stdout", "stderr")
#: The peer's process, user and group.
_CREDENTIALS = struct.Struct("3i")
#: A service that sends this many heartbeats after the loss of its template's connection has given the template up.
_BEATS = 2
_BYTES = 256 * 1024
_buffer = bytearray(_BYTES)
_view = memoryview(_buffer)


class Relays:
    """The socket that the harness connects to, its relays, and what another service can take over: the template, or the
    output of an app's own server.
    """

    def __init__(self, loop: Loop, context: ssl.SSLContext, folder: str) -> None:
        self._loop = loop
        self._context = context
        self._relays: set[_Relay] = set()
        #: Connections with an incomplete first line, and what they have sent of it.
        self._callers: dict[socket.socket, bytes] = {}
        #: The template's ticket, if there is to be a template.
        self.template_ticket: str | None = None
        #: What outlives a service, by kind: connections of the template, or pipes of the app's own server.
        self.kept: dict[str, Pipe] = {}
        #: The address of the seat's service, if it has one.
        self.address: tuple[str, int] | None = None
        #: Another service has the seat, and `settle` has not succeeded yet.
        self.is_taken_over = False
        #: Heartbeats since the template's connection was lost.
        self._beats = 0
        os.mkdir(folder, 0o700)
        self.path = os.path.join(folder, "s")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._listener.bind(self.path)
        self._listener.listen(_BACKLOG)
        loop.watch(self._listener.fileno(), IN, self._accept)

    @property
    def template(self) -> Template | None:
        template = self.kept.get("template")
        return template if isinstance(template, Template) else None

    def forks(self) -> dict[str, int]:
        template = self.template
        return {} if template is None else template.forks()

    def join(self, local: socket.socket | Pipe, kind: str, ticket: str, more: bytes = b"") -> None:
        """Relays a local connection to the service as one that shows that ticket; `more` is sent first."""
        self._pass_on(local, ("millrace 1 %s %s\n" % (kind, ticket)).encode("ascii") + more)

    def close(self) -> None:
        self._loop.forget(self._listener.fileno())
        self._listener.close()
        self._release()

    @property
    def may_go_on(self) -> bool:
        """Whether another service can take over. A template that does not fork is a replica: it ends with its own."""
        if self.template_ticket is None:
            return len(self.kept) > 0
        return self.template is not None and self.template.may_go_on

    def take_over(self) -> None:
        """Ends the relays of the previous service."""
        self._release()
        self.is_taken_over = True
        self._loop.wake()

    def settle(self, ticket: str) -> bool:
        """Relays to the new service, with that ticket, once all forks for the old one have ended; returns whether."""
        template = self.template
        if template is not None and not template.is_alone:
            template.end_children("end")
            return False
        self.is_taken_over = False
        for kind, pipe in self.kept.items():
            if pipe.is_lost and not pipe.is_over:
                pipe.find()
                self.join(pipe, kind, ticket, pipe.ready if isinstance(pipe, Template) else b"")
        return True

    def hear_beat(self) -> None:
        """Closes a template whose connection is lost while its service keeps the seat: it was detached."""
        template = self.template
        if template is None or not template.is_lost or self.is_taken_over:
            self._beats = 0
            return
        self._beats += 1
        if self._beats >= _BEATS:
            template.leave()

    def come_back(self) -> None:
        """Called when the same service is back. It has given up the template if its connection was lost."""
        if self.template is not None:
            self.template.leave()

    def _release(self) -> None:
        """Closes all relays. What outlives a service may be joined again."""
        for caller in self._callers:
            self._loop.forget(caller.fileno())
            caller.close()
        self._callers.clear()
        for relay in list(self._relays):
            relay.close()

    def _accept(self, _events: int) -> None:
        try:
            local, _ = self._listener.accept()
        except OSError:
            return  # The caller has gone, or no descriptors are left.
        if len(self._relays) + len(self._callers) >= _MAX_RELAYS:
            local.close()
            return
        local.setblocking(False)
        self._callers[local] = b""
        self._loop.watch(local.fileno(), IN, lambda _events: self._hear(local))

    def _hear(self, local: socket.socket) -> None:
        try:
            data = local.recv(_PREFACE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        said = self._callers[local] = self._callers[local] + data
        # The service refuses a first line that is too long or incomplete.
        if not data or b"\n" in said or len(said) >= _PREFACE_BYTES:
            self._loop.forget(local.fileno())
            del self._callers[local]
            self._greet(local, said)

    def _greet(self, local: socket.socket, said: bytes) -> None:
        if not said:
            local.close()
            return
        preface, _, rest = said.partition(b"\n")
        words = preface.decode("latin-1").split(" ")
        if words[2:3] == ["wire"]:
            self._meet(words[3:], local)
        kind = words[2] if len(words) > 3 and words[3] == self.template_ticket else ""
        if kind not in _LASTING or kind in self.kept:
            self._pass_on(local, said)
            return
        pipe = (Template if kind == "template" else Pipe)(self._loop, local.detach())
        self.kept[kind] = pipe
        if isinstance(pipe, Template):
            pipe.overhear(rest)
        self._pass_on(pipe, said)

    def _meet(self, shown: list[str], local: socket.socket) -> None:
        """Notes the process of a replica. Behind walls the agent connects for it, and names its pid."""
        template = self.template
        if template is None or not shown:
            return
        pid, _, _ = _CREDENTIALS.unpack(local.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        told = shown[1] if len(shown) > 1 and shown[1].isdecimal() else pid
        template.meet(shown[0], int(told))

    def _pass_on(self, local: socket.socket | Pipe, first: bytes) -> None:
        if self.address is None or len(self._relays) >= _MAX_RELAYS:
            local.close()
            return
        self._relays.add(_Relay(self._loop, self._context, self.address, local, self._relays.discard, first))


class _Relay:
    """One connection on both sides."""

    def __init__(
        self,
        loop: Loop,
        context: ssl.SSLContext,
        address: tuple[str, int],
        local: socket.socket | Pipe,
        on_closed: Callable[[_Relay], None],
        preface: bytes,
    ) -> None:
        self._loop = loop
        self._local = local
        self._on_closed = on_closed
        self._descriptor = local.fileno()
        #: Bytes for the harness that the kernel has not taken.
        self._unsent = b""
        self._is_local_over = False
        #: The harness reads nothing more; it may still send.
        self._is_deaf = False
        self._is_closed = False
        self._events = 0
        self._home = Channel(loop, context, address, preface, self)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._home.close()
        self._loop.forget(self._descriptor)
        self._local.close()
        self._on_closed(self)

    # The channel's events.

    def on_open(self) -> None:
        self._listen(True)

    def on_data(self, data: memoryview) -> bool:
        if self._is_deaf:
            return True
        try:
            sent = self._local.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._is_deaf = True
            return True
        if sent == len(data):
            return True
        self._unsent = bytes(data[sent:])
        self._set_events(self._events | OUT)
        return False

    def on_drained(self) -> None:
        self._listen(True)

    def on_end(self, is_orderly: bool) -> None:
        # A pipe outlives this service.
        if not is_orderly or self._is_local_over or isinstance(self._local, Pipe):
            self.close()
            return
        try:
            self._local.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # The harness has closed it already.

    # The harness's events.

    def _act(self, events: int) -> None:
        if events & OUT:
            self._drain()
        if events & IN:
            self._read()
        elif events & ~OUT:
            # Closed in both directions while the service was too slow: the last bytes are read when there is room.
            self._is_deaf = True
            self._set_events(0)

    def _read(self) -> None:
        try:
            count = self._local.recv_into(_buffer)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if count == 0:
            self._finish()
            return
        self._home.send(_view[:count])
        if self._home.is_full:
            self._listen(False)

    def _finish(self) -> None:
        self._is_local_over = True
        self._is_deaf = True
        self._set_events(0)
        self._home.end()
        if self._unsent:
            self._unsent = b""
            self._home.resume()

    def _drain(self) -> None:
        try:
            sent = self._local.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:
            self._is_deaf = True
            sent = len(self._unsent)
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._set_events(self._events & ~OUT)
            self._home.resume()

    def _listen(self, is_listening: bool) -> None:
        if not self._is_local_over:
            self._set_events(self._events | IN if is_listening else self._events & ~IN)

    def _set_events(self, events: int) -> None:
        """With no events it is not watched: its end would wake the loop again and again."""
        if events == self._events or self._is_closed:
            return
        if events == 0:
            self._loop.forget(self._descriptor)
        elif self._events == 0:
            self._loop.watch(self._descriptor, events, self._act)
        else:
            self._loop.change(self._descriptor, events)
        self._events = events
