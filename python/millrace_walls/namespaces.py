"""Builds an app's own view of the machine: only its files, processes and names. Opens and closes GPUs in it later.
Needs no helper program: the first process of a user namespace may mount in it.
"""

from __future__ import annotations

import os
import signal
import struct

from . import kernel
from .places import KERNEL_FOLDERS, Places, is_within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .gpus import Gpus

_CLONE = {"x86_64": 56, "aarch64": 220}
_UNSHARE = {"x86_64": 272, "aarch64": 97}
_MOUNT = {"x86_64": 165, "aarch64": 40}
_UMOUNT = {"x86_64": 166, "aarch64": 39}
_SETNS = {"x86_64": 308, "aarch64": 268}
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR = 442

#: CLONE_NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID.
_NEW = 0x00020000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000
_NEW_USER, _NEW_VIEW = 0x10000000, 0x00020000
#: From the descriptor of a namespace, that of the user namespace in which it was made.
_GET_OWNER = 0xB701
#: The user and group of the service. In the new namespaces that is root until the view is built.
_OWN = os.getuid(), os.getgid()

_NOSUID, _NODEV, _NOEXEC, _BIND, _RECURSIVE, _PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_DETACH = 2
_AT_FDCWD, _AT_NOFOLLOW, _AT_RECURSIVE = -100, 0x100, 0x8000
_RDONLY = 1
_WRITABLE = _NOSUID | _NODEV
_READABLE = _WRITABLE | _RDONLY

#: The kernel's settings, some of them for the namespaces of a process.
_SETTINGS = "/proc/sys"
#: Where the host's files are while the view is built.
_HOST = "/.host"
#: Further names of storage and bundle, which apps from other services expect.
_STORAGE, _BUNDLE = "/persistent-storage", "/cortex"
#: Lists of users and groups, with a line for the project's user: many programs need its name.
_NAMES = {"/etc/passwd": "app:x:%(id)d:%(id)d::/tmp:/bin/sh\n", "/etc/group": "app:x:%(id)d:\n"}
#: The layers of a bundle while they are put together. Fixed names: the kernel splits paths at commas and colons.
_BELOW, _ABOVE = "/.below", "/.above"
#: One file for each this many bytes: an empty file takes about 1 KiB of kernel memory, which no size limits.
_BYTES_A_FILE = 16 * 1024
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: System V queues and semaphores may take this much kernel memory, for every limit: 64 MiB, at 1 MiB for a queue full
#: of empty messages, and 16 MiB. The other numbers are the kernel's defaults.
_QUEUES, _SEMAPHORES = "64", "32000 262144 500 4096"

#: What the process that changes a view says if all is well, and how much it may say.
_DONE = b"done"
_MAX_BYTES = 1000


def fork_apart(user: int | None = None) -> int:
    """Like `os.fork`; the child is the first process of new namespaces and has every right in them.

    It may become `user` later, whose group has the same number, if this process is root. Raises OSError if the host
    cannot, in the parent only: a child that raised would continue as a second parent.
    """
    told, tell = os.pipe()
    child = kernel.syscall(_CLONE[kernel.MACHINE], _NEW | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os.close(tell)
        # It has no user until its parent has mapped one.
        if not os.read(told, 1):
            os._exit(1)
        os.close(told)
        return 0
    os.close(told)
    try:
        if user is None:
            # Otherwise an ordinary user may not map a group.
            _write("/proc/%d/setgroups" % child, "deny")
        for name, own in zip(("uid_map", "gid_map"), _OWN):
            more = "" if user is None else "%d %d 1\n" % (user, user)
            _write("/proc/%d/%s" % (child, name), "0 %d 1\n%s" % (own, more))
        os.write(tell, b"x")
    except OSError:
        os.close(tell)
        os.waitpid(child, 0)
        raise
    os.close(tell)
    return child


def build(places: Places) -> None:
    """Replaces the root by one that shows only those places."""
    # Another user may have to pass the folders that are made here.
    os.umask(0o022)
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    # Any folder will do: as soon as it is the root, its old content is visible again.
    _mount("tmpfs", places.scratch, "tmpfs", _NOSUID | _NODEV, "mode=755,size=4m")
    os.mkdir(places.scratch + _HOST)
    os.chdir(places.scratch)
    kernel.syscall(_PIVOT_ROOT[kernel.MACHINE], b".", _HOST[1:].encode())
    os.chdir("/")
    # First: the data directory may itself be below.
    _show(places.scratch, "/tmp", _WRITABLE)
    shown: list[str] = []
    for path in sorted(places.read):
        if places.user is not None and path in _NAMES:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(_HOST + path, "rb") as host, open(path, "wb") as own:
                own.write(host.read().rstrip(b"\n") + b"\n" + (_NAMES[path] % {"id": places.user}).encode())
        elif not any(is_within(path, other) for other in shown):
            _show(path, path, _READABLE)
            shown.append(path)
    for path in (*places.write, places.scratch):
        _show(path, path, _WRITABLE)
    if places.bundle not in (*places.write, places.scratch):
        _show_copy(places)
    for path, at in ((places.bundle, _BUNDLE), (places.storage, _STORAGE)):
        if path:
            os.mkdir(at)
            _mount(path, at, None, _BIND)
    for path in KERNEL_FOLDERS:
        if os.path.exists(_HOST + path):
            _show(path, path, _READABLE)
    os.mkdir("/proc")
    try:
        _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    except PermissionError:
        why = "parts of the host's are hidden, by a container or by a setting of systemd such as ProtectKernelTunables"
        raise OSError("the kernel does not allow a /proc of its own, as " + why) from None
    _make_devices(places)
    _limit_segments(places.memory_bytes)
    # Read-only: some of these settings, such as the limits just set, belong to the user that made the namespaces.
    _mount(_SETTINGS, _SETTINGS, None, _BIND)
    _restrict(_SETTINGS, _RDONLY, 0)
    for link, target in {**places.links, "/var/tmp": "/tmp"}.items():
        if not os.path.lexists(link):
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(target, link)
    kernel.syscall(_UMOUNT[kernel.MACHINE], _HOST.encode(), _DETACH)
    os.rmdir(_HOST)
    _restrict("/", _RDONLY, 0)
    if places.user is None and _OWN != (0, 0):
        # This process becomes the service's user again, in a namespace without root.
        kernel.syscall(_UNSHARE[kernel.MACHINE], _NEW_USER)
        for name, own in zip(("uid_map", "gid_map"), _OWN):
            _write("/proc/self/" + name, "%d 0 1\n" % own)


def show_gpus(pid: int, gpus: Gpus) -> str | None:
    """Has the seat whose first process is `pid` open exactly the granted GPUs from now on, also in processes that run
    already. Files that are open stay open. Returns why it failed, or None.

    Needs no rights on the host: the maker of a user namespace has every right in it. A process of its own enters it.
    """
    # Not later: that process sees the files of the app.
    import fcntl

    closed = gpus.closed()
    # First those that are taken away: a failure leaves less open, never more.
    changes = [(path, path not in closed) for path in sorted(gpus.files(), key=lambda each: each not in closed)]
    told, tell = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(told)
        os.close(tell)
        raise
    if child == 0:
        try:
            view = os.open("/proc/%d/ns/mnt" % pid, os.O_RDONLY)
            # The process itself may be in a namespace below that one, without rights.
            owner = fcntl.ioctl(view, _GET_OWNER)
            kernel.syscall(_SETNS[kernel.MACHINE], owner, _NEW_USER)
            kernel.syscall(_SETNS[kernel.MACHINE], view, _NEW_VIEW)
            for path, is_open in changes:
                try:
                    _open_device(path, is_open)
                except FileNotFoundError:
                    if gpus.needs(path):
                        raise
            os.write(tell, _DONE)
        except OSError as error:
            os.write(tell, str(error).encode()[:_MAX_BYTES])
        finally:
            os._exit(0)
    os.close(tell)
    with open(told, "rb") as source:
        said = source.read()
    os.waitpid(child, 0)
    return None if said == _DONE else said.decode(errors="replace") or "the process that changes it was ended"


def _open_device(path: str, is_open: bool) -> None:
    """Lets a device file that is mounted in this view be opened, or not."""
    packed = struct.pack("=QQQQ", 0 if is_open else _NODEV, _NODEV if is_open else 0, 0, 0)
    kernel.syscall(_MOUNT_SETATTR, _AT_FDCWD, path.encode(), _AT_NOFOLLOW, packed, len(packed))


def _limit_segments(memory_bytes: int | None) -> None:
    """Limits System V memory by the namespace: segments that are not attached count for no process. Root may do that
    everywhere, other users since Linux 6.9. A kernel may have been built without it.
    """
    limits = {"msgmni": _QUEUES, "sem": _SEMAPHORES}
    if memory_bytes is not None:
        limits["shmall"] = str(memory_bytes // _PAGE_BYTES)
    for name, value in limits.items():
        try:
            _write(_SETTINGS + "/kernel/" + name, value)
        except (FileNotFoundError, PermissionError):
            break


def _make_devices(places: Places) -> None:
    os.mkdir("/dev")
    for path in places.devices:
        _show(path, path, _NOSUID | (_NODEV if path in places.closed else 0))
    os.mkdir("/dev/shm")
    _mount("tmpfs", "/dev/shm", "tmpfs", _NOSUID | _NODEV, _in_memory("1777", places.memory_bytes))
    os.mkdir("/dev/pts")
    _mount("devpts", "/dev/pts", "devpts", _NOSUID | _NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    os.symlink("pts/ptmx", "/dev/ptmx")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink("/proc/self/fd" + target, "/dev/" + name)


def _show_copy(places: Places) -> None:
    """Shows the bundle, with the app's changes in a layer on disk, or else in memory, or else read-only."""
    for path in (_BELOW, _ABOVE):
        os.mkdir(path)
    _mount(_HOST + places.bundle, _BELOW, None, _BIND)
    kept = places.scratch + "/.bundle"
    os.mkdir(_HOST + kept)
    in_memory = ("tmpfs", "tmpfs", _WRITABLE, _in_memory("700", places.memory_bytes))
    for source, kind, flags, data in ((_HOST + kept, None, _BIND, None), in_memory):
        _mount(source, _ABOVE, kind, flags, data)
        for name in ("/files", "/work"):
            os.mkdir(_ABOVE + name)
        if places.user is not None:
            os.chown(_ABOVE + "/files", places.user, places.user)
        options = "userxattr,lowerdir=%s,upperdir=%s/files,workdir=%s/work" % (_BELOW, _ABOVE, _ABOVE)
        try:
            _mount("overlay", places.bundle, "overlay", _WRITABLE, options)
            break
        except OSError:
            continue
        finally:
            kernel.syscall(_UMOUNT[kernel.MACHINE], _ABOVE.encode(), _DETACH)
    kernel.syscall(_UMOUNT[kernel.MACHINE], _BELOW.encode(), _DETACH)
    for path in (_BELOW, _ABOVE):
        os.rmdir(path)


def _show(path: str, at: str, attributes: int) -> None:
    """Shows a path of the host, with everything that is mounted below it."""
    source = _HOST + path
    if os.path.isdir(source):
        os.makedirs(at, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(at), exist_ok=True)
        os.close(os.open(at, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    _mount(source, at, None, _BIND | _RECURSIVE)
    _restrict(at, attributes, _AT_RECURSIVE)


def _in_memory(mode: str, memory_bytes: int | None) -> str:
    """Options of a file system in memory, whose files count for no process that has not mapped them."""
    if memory_bytes is None:
        return "mode=" + mode
    return "mode=%s,size=%d,nr_inodes=%d" % (mode, memory_bytes, memory_bytes // _BYTES_A_FILE)


def _restrict(path: str, attributes: int, flags: int) -> None:
    packed = struct.pack("=QQQQ", attributes, 0, 0, 0)
    kernel.syscall(_MOUNT_SETATTR, _AT_FDCWD, path.encode(), flags, packed, len(packed))


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if each is None else os.fsencode(each) for each in (source, target, kind)]
    options = None if data is None else data.encode()
    kernel.syscall(_MOUNT[kernel.MACHINE], *words, flags, options)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
