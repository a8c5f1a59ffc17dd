"""The keeper's end of the seccomp notifier: receives the system calls that the kernel has stopped, and answers them.

Also reads the memory and the descriptors of the calling process. Its pid may be in use again by then, so check
`is_valid` after reading and before acting.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct

from . import kernel

_RECEIVE, _SEND, _IS_VALID, _ADD_DESCRIPTOR = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
_NOTICE = struct.Struct("=QII iI Q 6Q")
_ANSWER = struct.Struct("=QqiI")
_ADDITION = struct.Struct("=QIIII")
#: SECCOMP_USER_NOTIF_FLAG_CONTINUE.
_CONTINUE = 1

_READ_MEMORY = {"x86_64": 310, "aarch64": 270}
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
#: Opens a single thread, since Linux 6.9. A thread may have its own table of descriptors.
_PIDFD_THREAD = os.O_EXCL
_PAGE_BYTES = 4096


class Notice:
    __slots__ = ("arguments", "id", "number", "pid")

    def __init__(self, id_: int, pid: int, number: int, arguments: tuple[int, ...]) -> None:
        self.id = id_
        #: The calling thread, in this process's pid namespace.
        self.pid = pid
        self.number = number
        self.arguments = arguments


class Notifier:
    """The descriptor of the kernel's notifications."""

    def __init__(self, listener: int) -> None:
        self._listener = listener

    def fileno(self) -> int:
        return self._listener

    def receive(self) -> Notice | None:
        """The next call; None if its process has just ended or was interrupted."""
        question = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, question, True)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return None
            raise
        id_, pid, _, number, _, _, *arguments = _NOTICE.unpack(question)
        return Notice(id_, pid, number, tuple(arguments))

    def is_valid(self, notice: Notice) -> bool:
        """Whether the call still waits, and its thread's pid is therefore still the same thread's."""
        try:
            fcntl.ioctl(self._listener, _IS_VALID, notice.id.to_bytes(8, "little"))
        except OSError:
            return False
        return True

    def require_valid(self, notice: Notice) -> None:
        if not self.is_valid(notice):
            raise kernel.failure(errno.ESRCH)

    def reply(self, notice: Notice, error: int = 0, result: int = 0) -> bool:
        """Has the call return that result, or fail with that error. Returns whether it still waited."""
        return self._send(_ANSWER.pack(notice.id, result, -error, 0))

    def let_through(self, notice: Notice) -> None:
        """Has the kernel carry out the call, with whatever its arguments refer to by then."""
        self._send(_ANSWER.pack(notice.id, 0, 0, _CONTINUE))

    def reply_with_descriptor(self, notice: Notice, descriptor: int, flags: int = 0) -> None:
        """Has the call return a copy of that descriptor. Raises OSError before Linux 5.9."""
        addition = bytearray(_ADDITION.pack(notice.id, 0, descriptor, 0, flags))
        while True:
            # Not in one step with the answer (SECCOMP_ADDFD_FLAG_SEND): a signal to this process would make the call
            # return 0, which is a descriptor as well.
            try:
                number = fcntl.ioctl(self._listener, _ADD_DESCRIPTOR, addition, True)
                break
            except InterruptedError:
                continue
        self.reply(notice, result=number)

    def _send(self, answer: bytes) -> bool:
        try:
            fcntl.ioctl(self._listener, _SEND, answer)
        except OSError as error:
            # The process was interrupted or has ended, or a child has answered already.
            if error.errno not in (errno.ENOENT, errno.EINPROGRESS):
                raise
            return False
        return True


def copy_descriptor(thread: int, descriptor: int) -> int:
    """Copies a descriptor of another thread."""
    try:
        process = kernel.syscall(_PIDFD_OPEN, thread, _PIDFD_THREAD)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # Before Linux 6.9 only the first thread can be opened. The call is made on that thread's descriptor, so others
        # gain nothing by a table of their own.
        process = kernel.syscall(_PIDFD_OPEN, int(status_of(thread, "Tgid")), 0)
    try:
        return kernel.syscall(_PIDFD_GETFD, process, descriptor, 0)
    finally:
        os.close(process)


def status_of(thread: int, name: str) -> str:
    """A line of /proc/PID/status. Raises OSError without it: a thread that ends loses some lines before its pid."""
    with open("/proc/%d/status" % thread, encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.startswith(name + ":"):
                return line.partition(":")[2].strip()
    raise kernel.failure(errno.ESRCH)


def read_memory(pid: int, at: int, size: int) -> bytes:
    """Reads memory of another process. Raises OSError if it is not all mapped."""
    if size == 0:
        return b""
    held = kernel.hold(bytes(size))
    here = struct.pack("@PN", kernel.address_of(held), size)
    there = struct.pack("@PN", at, size)
    if kernel.syscall(_READ_MEMORY[kernel.MACHINE], pid, here, 1, there, 1, 0) != size:
        raise kernel.failure(errno.EFAULT)
    return held.raw


def read_text(pid: int, at: int, most: int) -> bytes:
    """Reads a string of another process. Raises OSError if it is longer than `most`."""
    text = b""
    while b"\0" not in text:
        if len(text) > most:
            raise kernel.failure(errno.ENAMETOOLONG)
        # Never across the end of a page: the next may not be mapped.
        start = at + len(text)
        text += read_memory(pid, start, min(most + 1, _PAGE_BYTES - start % _PAGE_BYTES))
    return text.partition(b"\0")[0]


#: More than the path of any thread's name.
_PATH_BYTES = 64


def answer_open(notifier: Notifier, notice: Notice) -> None:
    """Opens a thread's name for its process, and leaves everything else to the kernel and to Landlock."""
    try:
        opened = _open(notifier, notice)
    except (OSError, KeyError):
        opened = None
    if opened is None:
        notifier.let_through(notice)
        return
    try:
        notifier.reply_with_descriptor(notice, opened)
    except OSError:
        notifier.let_through(notice)
    finally:
        os.close(opened)


def _open(notifier: Notifier, notice: Notice) -> int | None:
    _, path_at, flags, *_ = notice.arguments
    parts = read_text(notice.pid, path_at, _PATH_BYTES).decode("ascii", "replace").split("/")
    if len(parts) != 6 or parts[:2] != ["", "proc"] or parts[3::2] != ["task", "comm"]:
        return None
    # The last number is that in the innermost pid namespace.
    process = status_of(notice.pid, "NStgid").split()[-1]
    if parts[2] not in ("self", process) or not parts[4].isdecimal():
        return None
    own = os.open("/proc/%d/root/proc" % notice.pid, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        notifier.require_valid(notice)
        name = "%s/task/%d/comm" % (process, int(parts[4]))
        return os.open(name, (flags & os.O_ACCMODE) | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=own)
    finally:
        os.close(own)
