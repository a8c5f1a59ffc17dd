"""Connects and binds an app's sockets in its place, where that is permitted.

The kernel stops each `connect`, `bind` and `listen` of the app and asks here. This process reads the address once,
judges it, and makes the call on a copy of the app's descriptor: changes by the app in the meantime, in its memory or at
the descriptor's number, have no effect.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import socket
import struct
import time

from . import kernel
from .addresses import Address, read_name, with_port, with_real_host
from .judge import Judge
from .kernel import machine_of
from .notifier import Notice, Notifier, answer_open, copy_descriptor, read_memory
from .unix_sockets import UnixSockets

_CALLS = machine_of(kernel.MACHINE)

_NAME_BYTES = 128
#: AF_UNSPEC, which ends a connection.
_NOWHERE = bytes(16)
_TIMEVAL = struct.Struct("@ll")
#: Blocking connections in progress at once: each holds a descriptor here until it is answered.
_MAX_WAITING = 512
#: Threads whose last call is remembered; beyond that, all are forgotten.
_MAX_REMEMBERED = 256
#: How often to look for connections that no process waits for any more.
_SWEEP_SECONDS = 1.0
#: How long one connection can delay all others, if the app manages to make it block.
_PATIENCE_SECONDS = 0.05


class _Waiting:
    """A blocking connection in progress."""

    def __init__(
        self, notice: Notice, connection: socket.socket, name: bytes, address: Address | None, call: object
    ) -> None:
        self.notice = notice
        self.call = call
        self.connection = connection
        self.name = name
        self.address = address
        seconds, micros = _TIMEVAL.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.size))
        limit = seconds + micros / 1e6
        self.until = time.monotonic() + limit if limit else None


class Connects:
    """Answers the calls of one app. Nothing here blocks: a call that has to wait is answered later."""

    def __init__(self, notifier: Notifier, judge: Judge, unix: UnixSockets | None) -> None:
        self._notifier = notifier
        self._judge = judge
        #: None where the kernel refuses the unix sockets of others, and TCP without asking here: then the app may make
        #: these calls itself.
        self._unix = unix
        self._waiting: dict[int, _Waiting] = {}
        #: By thread: the last call that was carried out, and its error.
        self._last: dict[int, tuple[object, int]] = {}
        self._swept_at = 0.0
        self._events = select.epoll()
        self._events.register(notifier.fileno(), select.EPOLLIN)
        signal.signal(signal.SIGALRM, lambda number, frame: None)

    def fileno(self) -> int:
        return self._events.fileno()

    def pause_seconds(self) -> float | None:
        """How long until `work` is due without an event; None for never."""
        pauses = [] if self._unix is None else [self._unix.pause_seconds()]
        if self._waiting:
            now = time.monotonic()
            ends = (each.until for each in self._waiting.values() if each.until is not None)
            pauses.append(max(0.0, min((self._swept_at + _SWEEP_SECONDS, *ends)) - now))
        return min((each for each in pauses if each is not None), default=None)

    def work(self) -> bool:
        """Answers pending calls; false when no process is left that could make one."""
        is_open = True
        for descriptor, event in self._events.poll(0):
            if descriptor != self._notifier.fileno():
                self._finish(self._waiting[descriptor])
            elif event & select.EPOLLIN:
                self._take()
            else:
                self._events.unregister(self._notifier.fileno())
                is_open = False
        self._sweep()
        if self._unix is not None:
            self._unix.sweep()
        return is_open

    def _take(self) -> None:
        notice = self._notifier.receive()
        if notice is None:
            return
        try:
            if notice.number == _CALLS.openat:
                answer_open(self._notifier, notice)
                return
            if notice.number == _CALLS.socket and self._unix is not None:
                self._unix.answer_socket(notice)
                return
            copy = copy_descriptor(notice.pid, notice.arguments[0] & 0xFFFFFFFF)
            try:
                connection = socket.socket(fileno=copy)
            except OSError:
                os.close(copy)
                raise
            with connection:
                self._answer(notice, connection)
        except OSError as error:
            self._notifier.reply(notice, error.errno or errno.EACCES)
        except Exception:  # noqa: BLE001 - a call that breaks something here must fail alone
            self._notifier.reply(notice, errno.EACCES)

    def _answer(self, notice: Notice, connection: socket.socket) -> None:
        """Raises the error of the app's call."""
        is_unix = connection.family == socket.AF_UNIX
        if notice.number == _CALLS.listen:
            self._listen(notice, connection)
        elif is_unix and self._unix is None:
            self._notifier.let_through(notice)
        else:
            size = notice.arguments[2] & 0xFFFFFFFF
            if size > _NAME_BYTES:
                raise kernel.failure(errno.EINVAL)
            name = read_memory(notice.pid, notice.arguments[1], size)
            self._notifier.require_valid(notice)
            is_bind = notice.number == _CALLS.bind
            if is_unix and self._unix is not None:
                self._unix.answer(notice, connection, name, is_bind)
            else:
                self._answer_once(notice, connection, name, is_bind)

    def _answer_once(self, notice: Notice, connection: socket.socket, name: bytes, is_bind: bool) -> None:
        """Makes the call once, even if the kernel asks again because a signal came before the answer: a second call
        would fail. That can happen after an answer was taken, so successes are remembered until the thread's next call.
        """
        call: object = (notice.number, notice.arguments, os.fstat(connection.fileno()).st_ino, name)
        before, error = self._last.pop(notice.pid, (None, 0))
        if before != call or not (is_bind or error or _is_connected(connection)):
            try:
                if is_bind:
                    self._bind(connection, name)
                elif not self._connect(notice, connection, name, call):
                    return
                error = 0
            except OSError as failed:
                if failed.errno != errno.EINPROGRESS:
                    raise
                error = errno.EINPROGRESS
        is_heard = self._notifier.reply(notice, error)
        if not is_heard or (before != call and not error):
            self._remember(notice, call, error)

    def _remember(self, notice: Notice, call: object, error: int = 0) -> None:
        if len(self._last) >= _MAX_REMEMBERED:
            self._last.clear()
        self._last[notice.pid] = call, error

    def _listen(self, notice: Notice, connection: socket.socket) -> None:
        """Notes the socket as the app's before any connection can reach it."""
        if not _is_internet(connection):
            # Peers of a unix socket see which process listens, so that process has to make the call. A TCP socket that
            # the app puts in its place has been noted if it has a port of the app's choosing.
            self._notifier.let_through(notice)
            return
        self._notifier.require_valid(notice)
        self._judge.listeners.note(connection)
        backlog = notice.arguments[1] & 0xFFFFFFFF
        kernel.syscall(_CALLS.listen, connection.fileno(), backlog)
        self._notifier.reply(notice)

    def _bind(self, connection: socket.socket, name: bytes) -> None:
        if _is_internet(connection):
            # For any family in the name: the kernel accepts some instead of the socket's own.
            asked = int.from_bytes(name[2:4], "big")
            # This process may have privileges that the app lacks. Datagrams have ports of their own.
            is_stream = connection.type == socket.SOCK_STREAM
            port = self._judge.server_port.to_bind(asked) if is_stream else asked
            if 0 < port < _unprivileged_since() or (is_stream and not self._judge.may_take(port)):
                raise kernel.failure(errno.EACCES)
            if is_stream:
                self._judge.listeners.note(connection)
                name = with_port(name, port)
                try:
                    kernel.syscall(_CALLS.bind, connection.fileno(), name, len(name))
                except OSError as error:
                    if error.errno == errno.EADDRINUSE:
                        self._judge.note_in_use(asked)
                    raise
                self._judge.server_port.note_bound(asked)
                return
        kernel.syscall(_CALLS.bind, connection.fileno(), name, len(name))

    def _connect(self, notice: Notice, connection: socket.socket, name: bytes, call: object) -> bool:
        """Connects. Returns false if that is in progress and will be answered later."""
        if not _is_internet(connection):
            raise kernel.failure(errno.EACCES)
        # Not judged: datagrams can be sent without a connection.
        if connection.type != socket.SOCK_STREAM:
            kernel.syscall(_CALLS.connect, connection.fileno(), name, len(name))
            return True
        name = with_real_host(name, _bound_to(connection))
        address = read_name(name)
        port = address and self._judge.port_to_reach(address)
        if address and port and port != address.port:
            name = with_port(name, port)
            address = read_name(name)
        self._require_permitted(address)
        is_blocking = not fcntl.fcntl(connection, fcntl.F_GETFL) & os.O_NONBLOCK
        try:
            _connect_at_once(connection, name)
        except OSError as error:
            if not is_blocking or error.errno not in (errno.EINPROGRESS, errno.EALREADY):
                raise
        else:
            return True
        if len(self._waiting) >= _MAX_WAITING:
            raise kernel.failure(errno.EAGAIN)
        kept = connection.dup()
        self._waiting[kept.fileno()] = _Waiting(notice, kept, name, address, call)
        self._events.register(kept, select.EPOLLOUT)
        return False

    def _finish(self, waiting: _Waiting) -> None:
        """Answers a connection that is established or has failed."""
        self._forget(waiting)
        with waiting.connection as connection:
            # The kernel reports an error once: only a call that still waits may get it.
            if not self._notifier.is_valid(waiting.notice):
                return
            try:
                # A second call reports the outcome. If the app has ended the attempt by another call meanwhile, it
                # begins a new one, and the listener there may be another by now.
                self._require_permitted(waiting.address)
                _connect_at_once(connection, waiting.name)
            except PermissionError:
                kernel.syscall(_CALLS.connect, connection.fileno(), _NOWHERE, len(_NOWHERE))
                self._notifier.reply(waiting.notice, errno.EACCES)
            except OSError as error:
                is_new = error.errno == errno.EINPROGRESS
                self._notifier.reply(waiting.notice, errno.ECONNABORTED if is_new else error.errno or errno.EACCES)
            else:
                self._notifier.reply(waiting.notice)
                self._remember(waiting.notice, waiting.call)

    def _require_permitted(self, address: Address | None) -> None:
        if address and not self._judge.permits(address):
            raise kernel.failure(errno.EACCES)

    def _sweep(self) -> None:
        if not self._waiting:
            return
        now = time.monotonic()
        is_due = now >= self._swept_at + _SWEEP_SECONDS
        if is_due:
            self._swept_at = now
        for waiting in list(self._waiting.values()):
            is_over = waiting.until is not None and now >= waiting.until
            if is_over or (is_due and not self._notifier.is_valid(waiting.notice)):
                self._forget(waiting)
                waiting.connection.close()
                self._notifier.reply(waiting.notice, errno.EINPROGRESS)

    def _forget(self, waiting: _Waiting) -> None:
        self._events.unregister(waiting.connection)
        del self._waiting[waiting.connection.fileno()]


def _connect_at_once(connection: socket.socket, name: bytes) -> None:
    """Connects without blocking. Raises EINPROGRESS if the outcome is not known yet."""
    flags = fcntl.fcntl(connection, fcntl.F_GETFL)
    if not flags & os.O_NONBLOCK:
        # The app shares the flag, but the only call that would notice is the one that waits for this answer.
        fcntl.fcntl(connection, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    # Another process of the app can remove the flag.
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE_SECONDS, _PATIENCE_SECONDS)
    try:
        kernel.syscall(_CALLS.connect, connection.fileno(), name, len(name))
    except InterruptedError:
        raise kernel.failure(errno.EINPROGRESS) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if not flags & os.O_NONBLOCK:
            fcntl.fcntl(connection, fcntl.F_SETFL, flags)


def _is_internet(connection: socket.socket) -> bool:
    return connection.family in (socket.AF_INET, socket.AF_INET6)


def _is_connected(connection: socket.socket) -> bool:
    try:
        connection.getpeername()
    except OSError:
        return False
    return True


def _bound_to(connection: socket.socket) -> bytes:
    """A socket's own address; all zeros for none."""
    host = str(connection.getsockname()[0]).partition("%")[0]
    return socket.inet_pton(connection.family, host)


def _unprivileged_since() -> int:
    """The first port that needs no privilege."""
    try:
        with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "rb") as setting:
            return int(setting.read())
    except (OSError, ValueError):
        return 1024
