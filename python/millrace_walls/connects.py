"""Makes the connections of an app in its place, and takes its ports, where that is permitted.

The kernel stops each `connect` and each `bind` of the app and asks here. The address is read once, judged, and used by
this process, on a copy of the app's own descriptor: whatever the app changes in the meantime, in its memory or at the
descriptor's number, does not change where that connection leads, or which port is taken.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import struct
import time

from . import kernel
from .addresses import read_name
from .judge import Judge

_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTICE = struct.Struct("=QII iI Q 6Q")
_ANSWER = struct.Struct("=QqiI")
_CONTINUE = 1

_CONNECT = {"x86_64": 42, "aarch64": 203}
_BIND = {"x86_64": 49, "aarch64": 200}
_READ_MEMORY = {"x86_64": 310, "aarch64": 270}
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438

_NAME_BYTES = 128
_TIMEVAL = struct.Struct("@ll")
#: Blocking connections on their way at once: each holds a descriptor here, for as long as nobody answers it.
_MAX_WAITING = 512
#: How often those are looked for that nobody waits for any more.
_SWEEP_SECONDS = 1.0


class _Waiting:
    """A blocking connection on its way."""

    def __init__(self, notice: int, connection: socket.socket, name: bytes) -> None:
        self.notice = notice
        self.connection = connection
        self.name = name
        seconds, micros = _TIMEVAL.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.size))
        limit = seconds + micros / 1e6
        self.until = time.monotonic() + limit if limit else None


class Connects:
    """The outer end of the filter. Nothing here blocks: who has to wait is answered later."""

    def __init__(self, listener: int, judge: Judge, lets_unix: bool) -> None:
        self._listener = listener
        self._judge = judge
        #: Unix sockets are the app's own affair: namespaces and Landlock see to them.
        self._lets_unix = lets_unix
        self._waiting: dict[int, _Waiting] = {}
        self._swept_at = 0.0
        self._events = select.epoll()
        self._events.register(listener, select.EPOLLIN)

    def fileno(self) -> int:
        return self._events.fileno()

    def pause_seconds(self) -> float | None:
        """How long until something is due without being asked; None for never."""
        if not self._waiting:
            return None
        now = time.monotonic()
        ends = (each.until for each in self._waiting.values() if each.until is not None)
        return max(0.0, min((self._swept_at + _SWEEP_SECONDS, *ends)) - now)

    def work(self) -> bool:
        """Answers what can be answered; false when nobody is left who could ask."""
        is_open = True
        for descriptor, event in self._events.poll(0):
            if descriptor != self._listener:
                self._finish(self._waiting[descriptor])
            elif event & select.EPOLLIN:
                self._take()
            else:
                self._events.unregister(self._listener)
                is_open = False
        self._sweep()
        return is_open

    def _take(self) -> None:
        question = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, question, True)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return  # Who asked was interrupted, or has ended.
            raise
        notice, pid, _, number, _, _, descriptor, at, size, _, _, _ = _NOTICE.unpack(question)
        is_bind = number == _BIND[kernel.MACHINE]
        try:
            self._answer(notice, pid, descriptor & 0xFFFFFFFF, at, size & 0xFFFFFFFF, is_bind)
        except OSError as error:
            self._reply(notice, error.errno or errno.EACCES)

    def _answer(self, notice: int, pid: int, descriptor: int, at: int, size: int, is_bind: bool) -> None:
        """Raises what the app's own call is to fail with."""
        if size > _NAME_BYTES:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        copy = _copy(pid, descriptor)
        try:
            connection = socket.socket(fileno=copy)
        except OSError:
            os.close(copy)
            raise
        with connection:
            is_unix = connection.family == socket.AF_UNIX
            is_internet = connection.family in (socket.AF_INET, socket.AF_INET6)
            if not (is_bind or is_internet or (is_unix and self._lets_unix)):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
            if is_unix:
                # A path means something to the app alone. Should it be another socket by then: where Landlock knows of
                # ports, the app itself neither connects nor takes one.
                self._reply(notice, 0, _CONTINUE)
                return
            name = _read(pid, at, size)
            # By now the id may be another process's: then nothing of this counts.
            fcntl.ioctl(self._listener, _IS_VALID, notice.to_bytes(8, "little"))
            is_stream = connection.type == socket.SOCK_STREAM
            if is_bind:
                if is_internet:
                    self._require_port(name, is_stream)
                kernel.syscall(_BIND[kernel.MACHINE], connection.fileno(), name, len(name))
                self._reply(notice, 0)
                return
            address = read_name(name)
            # Datagrams can be sent without this, so it would not hold.
            if address and is_stream and not self._judge.permits(address):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
            self._connect(notice, connection, name)

    def _require_port(self, name: bytes, is_stream: bool) -> None:
        """Raises where it may not take that one. Datagrams have ports of their own, which are nobody's."""
        # Whatever family the name says: the kernel takes some for the socket's own.
        port = int.from_bytes(name[2:4], "big")
        # This process may have privileges that the app has not.
        if 0 < port < _unprivileged_since() or (is_stream and not self._judge.may_take(port)):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    def _connect(self, notice: int, connection: socket.socket, name: bytes) -> None:
        """Begins it; what is on its way and has to be waited for is kept."""
        flags = fcntl.fcntl(connection, fcntl.F_GETFL)
        is_blocking = not flags & os.O_NONBLOCK
        if is_blocking:
            # The app shares the flag, for this moment; the only call that would notice is the one that waits for us.
            fcntl.fcntl(connection, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        try:
            kernel.syscall(_CONNECT[kernel.MACHINE], connection.fileno(), name, len(name))
        except OSError as error:
            if not is_blocking or error.errno not in (errno.EINPROGRESS, errno.EALREADY):
                raise
        else:
            self._reply(notice, 0)
            return
        finally:
            if is_blocking:
                fcntl.fcntl(connection, fcntl.F_SETFL, flags)
        if len(self._waiting) >= _MAX_WAITING:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        kept = connection.dup()
        self._waiting[kept.fileno()] = _Waiting(notice, kept, name)
        self._events.register(kept, select.EPOLLOUT)

    def _finish(self, waiting: _Waiting) -> None:
        """It is connected, or has failed."""
        self._forget(waiting)
        with waiting.connection as connection:
            # An error can be asked for once: it is for whoever waits for it.
            if not self._is_valid(waiting.notice):
                return
            try:
                # The kernel knows where to: a second call tells how it went.
                kernel.syscall(_CONNECT[kernel.MACHINE], connection.fileno(), waiting.name, len(waiting.name))
            except OSError as error:
                self._reply(waiting.notice, error.errno or errno.EACCES)
            else:
                self._reply(waiting.notice, 0)

    def _sweep(self) -> None:
        if not self._waiting:
            return
        now = time.monotonic()
        is_due = now >= self._swept_at + _SWEEP_SECONDS
        if is_due:
            self._swept_at = now
        for waiting in list(self._waiting.values()):
            is_over = waiting.until is not None and now >= waiting.until
            if is_over or (is_due and not self._is_valid(waiting.notice)):
                self._forget(waiting)
                waiting.connection.close()
                self._reply(waiting.notice, errno.EINPROGRESS)

    def _forget(self, waiting: _Waiting) -> None:
        self._events.unregister(waiting.connection)
        del self._waiting[waiting.connection.fileno()]

    def _is_valid(self, notice: int) -> bool:
        try:
            fcntl.ioctl(self._listener, _IS_VALID, notice.to_bytes(8, "little"))
        except OSError:
            return False
        return True

    def _reply(self, notice: int, error: int, flags: int = 0) -> None:
        try:
            fcntl.ioctl(self._listener, _SEND, _ANSWER.pack(notice, 0, -error, flags))
        except OSError as failed:
            if failed.errno != errno.ENOENT:
                raise
            # Who asked was interrupted, or has ended.


def _unprivileged_since() -> int:
    """The first port that needs no privilege."""
    try:
        with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "rb") as setting:
            return int(setting.read())
    except (OSError, ValueError):
        return 1024


def _copy(pid: int, descriptor: int) -> int:
    """A descriptor of another process, as one of ours."""
    try:
        process = kernel.syscall(_PIDFD_OPEN, pid, 0)
    except OSError:
        # A thread, whose descriptors are its process's.
        process = kernel.syscall(_PIDFD_OPEN, _process_of(pid), 0)
    try:
        return kernel.syscall(_PIDFD_GETFD, process, descriptor, 0)
    finally:
        os.close(process)


def _process_of(thread: int) -> int:
    with open("/proc/%d/status" % thread, "rb") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(b"Tgid:"))


def _read(pid: int, at: int, size: int) -> bytes:
    """Memory of another process. Raises where there is none."""
    if size == 0:
        return b""
    held = kernel.hold(bytes(size))
    here = struct.pack("@PN", kernel.address_of(held), size)
    there = struct.pack("@PN", at, size)
    if kernel.syscall(_READ_MEMORY[kernel.MACHINE], pid, here, 1, there, 1, 0) != size:
        raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
    return held.raw
