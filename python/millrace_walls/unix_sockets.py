"""Binds and connects an app's unix sockets in its place, where neither namespaces nor Landlock protect those of others.

Abstract names get a prefix of the app's own, so that it reaches only its own sockets. Paths lead to what the app sees,
if it has its own view; otherwise, behind Landlock, only to its scratch folder, into which no other program's socket can
be linked. A short-lived child of the keeper enters the app's namespaces, becomes its user and makes the call on a copy
of the app's descriptor, where it may block.

A datagram socket names a receiver with each message, without a call that could be judged. An app with its own view gets
such sockets from its own network namespace, which has no other program's names.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import struct
import time

from millrace_worker import linux

from . import kernel, landlock
from .kernel import machine_of
from .notifier import Notice, Notifier, status_of
from .plan import Plan

_SETNS = {"x86_64": 308, "aarch64": 268}
_UNSHARE = {"x86_64": 272, "aarch64": 97}
_NEW_NETWORK = 0x40000000
#: NS_GET_USERNS.
_OWNER = 0xB701
_OPENAT2 = 437
#: RESOLVE_NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH.
_STRICTLY_BELOW = 0x01 | 0x02 | 0x04 | 0x08
_FAMILY = struct.Struct("=H")
#: The longest name of a unix socket, after its family.
_NAME_BYTES = 108
_HASH_BYTES = 16
#: Calls in progress at once. Each has a process while its connection waits for room in the listener's queue.
_MAX_WAITING = 64
#: How often the keeper looks for calls whose process no longer waits.
_SWEEP_SECONDS = 1.0


class UnixSockets:
    def __init__(self, notifier: Notifier, plan: Plan) -> None:
        self._notifier = notifier
        self._user = plan.user
        self._has_namespaces = plan.has_namespaces
        #: The app may use the sockets of other programs (`unix_sockets = true`): names stay as they are.
        self._reaches_others = plan.unix_sockets and not plan.has_namespaces
        #: The folder that its paths may lead to, by all its names; empty for everywhere in its view.
        own = plan.scratch if plan.level == "landlock" and not plan.unix_sockets else None
        self._own_folders = [] if own is None else [own, os.path.realpath(own)]
        self._prefix = b"millrace-%s-" % os.urandom(4).hex().encode()
        #: The network namespace of its datagram sockets, once there is one.
        self._network: int | None = None
        #: Calls in progress, each with a descriptor of its process.
        self._waiting: dict[Notice, int] = {}
        self._swept_at = 0.0

    def answer(self, notice: Notice, connection: socket.socket, name: bytes, is_bind: bool) -> None:
        """Begins the call, or raises its error."""
        if len(self._waiting) >= _MAX_WAITING:
            self._forget_ended()
        if len(self._waiting) >= _MAX_WAITING:
            raise kernel.failure(errno.EAGAIN)
        place = _Place(notice.pid, self._has_namespaces)
        try:
            # The names of its datagram sockets are in the app's own network namespace.
            is_apart = connection.type == socket.SOCK_DGRAM and self._has_namespaces
            meant = name if is_apart else self._meant(place, name, is_bind)
            # Until here, the process could have ended and its pid be in use again.
            self._notifier.require_valid(notice)
            keeper = os.getpid()
            child = os.fork()
            if child == 0:
                self._call(notice, connection, meant, place, keeper)
        finally:
            place.close()
        self._waiting[notice] = os.pidfd_open(child)

    def answer_socket(self, notice: Notice) -> None:
        """Gives the app a datagram socket, or raises the call's error."""
        kind = notice.arguments[1] & 0xFFFFFFFF
        space = _users_of(notice.pid)
        heard, told = socket.socketpair()
        try:
            self._notifier.require_valid(notice)
            if os.fork() == 0:
                self._make(kind, space, told)
            told.close()
            _, made, _, _ = socket.recv_fds(heard, 1, 2, socket.MSG_CMSG_CLOEXEC)
        finally:
            heard.close()
            os.close(space)
        if len(made) != 2:
            raise kernel.failure(errno.EPERM)
        given, network = made
        if self._network is None:
            self._network = network
        else:
            os.close(network)
        try:
            self._notifier.reply_with_descriptor(notice, given, kind & socket.SOCK_CLOEXEC)
        finally:
            os.close(given)

    def _make(self, kind: int, space: int, told: socket.socket) -> None:
        """In a child: makes a socket in the app's own network namespace, or in a new one."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            kernel.syscall(_SETNS[kernel.MACHINE], space, 0)
            if self._network is None:
                kernel.syscall(_UNSHARE[kernel.MACHINE], _NEW_NETWORK)
            else:
                kernel.syscall(_SETNS[kernel.MACHINE], self._network, 0)
            network = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            made = socket.socket(socket.AF_UNIX, kind)
            socket.send_fds(told, [b"\n"], [made.fileno(), network])
        finally:
            os._exit(0)

    def pause_seconds(self) -> float | None:
        """How long until `sweep` is due; None for never."""
        return max(0.0, self._swept_at + _SWEEP_SECONDS - time.monotonic()) if self._waiting else None

    def sweep(self) -> None:
        """Forgets calls that have ended, and ends those that no process waits for."""
        if self.pause_seconds() == 0:
            self._forget_ended()

    def _forget_ended(self) -> None:
        self._swept_at = time.monotonic()
        for notice, process in list(self._waiting.items()):
            if self._notifier.is_valid(notice):
                continue
            try:
                signal.pidfd_send_signal(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
            os.close(process)
            del self._waiting[notice]

    def _meant(self, place: _Place, name: bytes, is_bind: bool) -> bytes:
        """The name to use for the one that the app gave. Raises OSError if the app may not use that."""
        if name[: _FAMILY.size] != _FAMILY.pack(socket.AF_UNIX) or self._reaches_others:
            return name
        path = name[_FAMILY.size :]
        if not path:
            # The kernel would choose a name that other apps could connect to.
            return self._private(os.urandom(_HASH_BYTES).hex().encode()) if is_bind else name
        if path[0] == 0:
            return self._private(path[1:])
        if self._has_namespaces:
            return name
        full = place.absolute(path.partition(b"\0")[0])
        folder = next((each for each in self._own_folders if full.startswith(each + "/")), None)
        if folder is not None:
            # Others see the name that a socket was bound by, so that must stay as it is.
            return name if is_bind else _FAMILY.pack(socket.AF_UNIX) + place.below(folder, full[len(folder) + 1 :])
        if not is_bind and not os.path.lexists(full):
            # CUDA looks for a server of NVIDIA's MPS, and does without only if there is none.
            raise kernel.failure(errno.ENOENT)
        raise kernel.failure(errno.EACCES)

    def _private(self, name: bytes) -> bytes:
        """Adds the app's prefix to an abstract name, unless it has that because the app got it from the kernel."""
        if not name.startswith(self._prefix):
            name = self._prefix + name
        if len(name) >= _NAME_BYTES:
            import hashlib  # Slow to import, and rarely needed.

            name = self._prefix + hashlib.blake2b(name, digest_size=_HASH_BYTES).hexdigest().encode()
        return _FAMILY.pack(socket.AF_UNIX) + b"\0" + name

    def _call(self, notice: Notice, connection: socket.socket, name: bytes, place: _Place, keeper: int) -> None:
        """In the child: makes the call as the app would, and answers it."""
        error = errno.EACCES
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            place.enter(self._user)
            if self._own_folders and name[_FAMILY.size] != 0 and notice.number == machine_of(kernel.MACHINE).bind:
                # The kernel makes no socket outside, even if a link leads there.
                landlock.install(read=(), write=self._own_folders, change=(), by_name=(), devices=(), no_tcp=False)
            linux.die_with_parent(keeper)
            kernel.syscall(notice.number, connection.fileno(), name, len(name))
            error = 0
        except OSError as failed:
            error = failed.errno or error
        finally:
            try:
                self._notifier.reply(notice, error)
            finally:
                os._exit(0)


class _Place:
    """A process of the app: its working directory, umask and namespaces."""

    def __init__(self, pid: int, has_namespaces: bool) -> None:
        self._umask = int(status_of(pid, "Umask"), 8)
        self._path = os.readlink("/proc/%d/cwd" % pid)
        self._opened: list[int] = []
        try:
            self._opened.append(os.open("/proc/%d/cwd" % pid, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
            if has_namespaces:
                self._opened.append(_users_of(pid))
                self._opened.append(os.open("/proc/%d/ns/mnt" % pid, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            self.close()
            raise
        self._folder, *self._namespaces = self._opened

    def absolute(self, path: bytes) -> str:
        return os.path.normpath(os.path.join(self._path, os.fsdecode(path)))

    def below(self, folder: str, path: str) -> bytes:
        """A path for a socket in that folder that the app cannot redirect. Raises OSError if it leads over a link."""
        how = struct.pack("=QQQ", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, 0, _STRICTLY_BELOW)
        root = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = kernel.syscall(_OPENAT2, root, os.fsencode(path), how, len(how))
        finally:
            os.close(root)
        self._opened.append(found)
        return b"/proc/self/fd/%d\0" % found

    def enter(self, user: int | None) -> None:
        """Moves this process to the app's namespaces and folder, with only the app's rights."""
        for each in self._namespaces:
            kernel.syscall(_SETNS[kernel.MACHINE], each, 0)
        os.fchdir(self._folder)
        os.umask(self._umask)
        kernel.drop_privileges(user)

    def close(self) -> None:
        for each in self._opened:
            os.close(each)


def _users_of(pid: int) -> int:
    """The user namespace that owns an app's mounts; its processes may be in a nested one."""
    files = os.open("/proc/%d/ns/mnt" % pid, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return fcntl.ioctl(files, _OWNER)
    finally:
        os.close(files)
