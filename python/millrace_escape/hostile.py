"""An app that runs what it is told to, and says of each whether it got out: "escaped", or what stopped it."""

import ctypes
import errno
import fcntl
import json
import os
import platform
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import time
from typing import Any, Callable

try:
    import network_tricks  # Beside this file in an app.
except ImportError:
    from millrace_escape import network_tricks

IS_X86 = platform.machine() == "x86_64"
#: Numbers of system calls, for x86-64 and arm64.
CALLS = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "get_robust_list": (274, 100),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "process_mrelease": (448, 448),
    "memfd_secret": (447, 447),
    "prctl": (157, 167),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "unshare": (272, 97),
    "clone": (56, 220),
    "clone3": (435, 435),
    "close_range": (436, 436),
    "exit": (60, 93),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "mount_setattr": (442, 442),
    "listmount": (458, 458),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "reboot": (169, 142),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "syslog": (103, 116),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sched_setscheduler": (144, 119),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "capset": (126, 91),
    "shmget": (29, 194),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
}
#: One attack may take this long: longer it hangs, and has gained nothing.
ATTACK_SECONDS = 10
#: For a service that has to notice what was done to it, on a machine that is busy with other things.
NOTICE_SECONDS = 60

#: What can be called from outside.
__all__ = ["answer", "attack", "attack_each", "listen", "who"]
#: For the attacks, which are texts and import nothing.
_MODULES = (fcntl, resource, subprocess, sysconfig)

#: Whether a filter stood when Python ran what it finds at its start, as `sitecustomize.py` has noted it.
customized: "str | None" = getattr(sys, "customized", None)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def call(name: str, *arguments: Any) -> int:
    """Makes a system call; raises if it is refused. Any other error means that nothing stopped it."""
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = int(_libc.syscall(ctypes.c_long(CALLS[name][0 if IS_X86 else 1]), *words))
    code = ctypes.get_errno()
    if result < 0 and code in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        raise OSError(code, os.strerror(code))
    return result


def status(name: str) -> str:
    """A line of what the kernel tells of this process."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(line.split()[1] for line in lines if line.startswith(name + ":"))


class NothingGainedError(OSError):
    """The attack came to nothing, though nothing refused it."""


def require(holds: bool) -> None:
    if not holds:
        raise NothingGainedError


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(100)


def use(path: str, flags: int = os.O_RDWR) -> None:
    """Opens a device, without doing anything to it."""
    os.close(os.open(path, flags))


def open_more(paths: "list[str]", attempt: "Callable[[str], object]", granted: int) -> None:
    """Raises what stopped it unless the attempt succeeds with more of these paths than were granted."""
    why: OSError = NothingGainedError()
    opened = 0
    for path in paths:
        try:
            attempt(path)
            opened += 1
        except OSError as error:
            why = error
    if opened <= granted:
        raise why


def make(path: str) -> None:
    """A new file, which is removed again."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    os.unlink(path)


def ask(path: str, text: bytes) -> bytes:
    """What a unix socket answers; nothing if it hangs up."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ATTACK_SECONDS / 2)
        connection.connect(path)
        connection.sendall(text)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


def fill(path: str, megabytes: int, seconds: int = NOTICE_SECONDS) -> None:
    """Writes a file, and leaves time to notice it; it is gone after that."""
    try:
        with open(path, "wb") as file:
            for _ in range(megabytes):
                file.write(b"x" * 1_000_000)
        time.sleep(seconds)
    finally:
        os.unlink(path)


def fill_segments(key: int, count: int) -> None:
    """Fills System V segments of 4 MiB, which nothing has attached then, and leaves time to notice them."""
    attached = ctypes.c_void_p
    _libc.shmat.restype = attached
    for number in range(count):
        segment = _libc.shmget(key + number, 4 << 20, 0o1600)
        if segment < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        at = attached(_libc.shmat(segment, None, 0))
        ctypes.memset(at, 120, 4 << 20)
        _libc.shmdt(at)
    time.sleep(NOTICE_SECONDS)


def knock(line: bytes) -> socket.socket:
    """A connection from the door that this process was started with; raises where it gives none."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=os.dup(3))
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    mine.settimeout(ATTACK_SECONDS / 2)
    with door, mine:
        with theirs:
            socket.send_fds(door, [line], [theirs.fileno()])
        given = socket.recv_fds(mine, 1, 1)[1]
    require(bool(given))
    return socket.socket(fileno=given[0])


def harness(name: str) -> Any:
    """Something of the harness that runs this app: its frames are on the stack, and nothing hides them."""
    frame = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if name in frame.f_locals:
            return frame.f_locals[name]
        frame = frame.f_back
    raise FileNotFoundError(errno.ENOENT, name)


def send_frame(kind: int, call_id: int, payload: bytes, claimed: "int | None" = None) -> None:
    """Says something on this replica's wire, and stays alive as long as the service lets it."""
    head = struct.pack("<IIB", len(payload) if claimed is None else claimed, call_id, kind)
    harness("replica").wire.sendall(head + payload)
    time.sleep(NOTICE_SECONDS)


def attack(code: str, facts: "dict[str, Any]") -> str:
    """Runs it in this very process."""
    try:
        exec(code, {**vars(network_tricks), **globals(), **facts})
    except NothingGainedError:
        return "nothing gained"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    except MemoryError:
        return "MemoryError"
    return "escaped"


def attack_each(codes: "list[str]", facts: "dict[str, Any]") -> "list[str]":
    """Runs each in a process of its own, so that none leaves anything for the next."""
    return [_attack_apart(code, facts) for code in codes]


def _attack_apart(code: str, facts: "dict[str, Any]") -> str:
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(tell, attack(code, facts).encode())
        except BaseException as error:  # noqa: BLE001 - a mistake in the attack, which must show
            os.write(tell, ("broken: %r" % error).encode()[:500])
        finally:
            os._exit(0)
    os.close(tell)
    in_time = bool(select.select([told], [], [], ATTACK_SECONDS)[0])
    # Not up to its end: what an attack has left running still holds the pipe.
    said = os.read(told, 500).decode() if in_time else "no answer"
    os.close(told)
    os.kill(child, signal.SIGKILL)
    _, ended = os.waitpid(child, 0)
    return said or "signal %d" % os.WTERMSIG(ended)


def who() -> "dict[str, Any]":
    return {"bundle": os.getcwd(), "customized": customized}


def answer(n: int) -> int:
    """Shows that this app still works."""
    return 2 * n + 1


def listen() -> int:
    """A port of this replica's own, as an app with a server inside has; it stays as long as the replica."""
    global _listener
    if _listener is None:
        _listener = socket.socket()
        _listener.bind(("127.0.0.1", 0))
        _listener.listen()
    return int(_listener.getsockname()[1])


_listener: "socket.socket | None" = None


def run_file() -> None:
    """In a build there are no calls: attacks come from a file, and results are printed."""
    with open("order.json", encoding="utf8") as file:
        told = json.load(file)
    for number, code in enumerate(told["codes"]):
        print("attack %d: %s" % (number, _attack_apart(code, told["facts"])), flush=True)
