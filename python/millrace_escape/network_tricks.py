"""Ways to connect, to take a port and to hide, for attacks on what stands between an app and the network."""

import ctypes
import errno
import mmap
import os
import platform
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Callable

IS_X86 = platform.machine() == "x86_64"
#: For two threads that race with each other.
RACE_SECONDS = 2

_libc = ctypes.CDLL(None, use_errno=True)


def dial(address: str, port: int, seconds: float = 3) -> None:
    """Opens a connection, and gives up on an address that does not answer."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as connection:
        connection.settimeout(seconds)
        connection.connect((address, port))


def dial_bound(source: str, address: str, port: int) -> None:
    """The same from a socket that has an address already, by which the kernel goes where the other is unspecified."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as connection:
        if ":" in address:
            connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        connection.bind((source, 0))
        connection.settimeout(3)
        connection.connect((address, port))


def named(host: str, port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)


def swapped(harmless: socket.socket, wanted: socket.socket, attempt: "Callable[[int], bool]") -> bool:
    """Tries with a number that another thread keeps giving from one socket to the other; whether it ever succeeded."""
    slot = os.dup(harmless.fileno())

    def change() -> None:
        os.dup2(wanted.fileno(), slot)
        os.dup2(harmless.fileno(), slot)

    return any(attempt(slot) for _ in _race(change))


def _race(change: "Callable[[], None]") -> "Iterator[None]":
    """Repeats `change` in another thread; yields until the race is over."""
    until = time.monotonic() + RACE_SECONDS

    def repeat() -> None:
        while time.monotonic() < until:
            change()

    threading.Thread(target=repeat, daemon=True).start()
    while time.monotonic() < until:
        yield


def take_port_behind(ports: "list[int]", make: "Callable[[], socket.socket]") -> bool:
    """Binds a unix socket whose number another thread keeps giving to a stream; whether that ever got the port."""
    stream, (last, _) = socket.socket(), ports
    name = named("127.0.0.1", last)

    def attempt(slot: int) -> bool:
        _libc.bind(slot, name, len(name))
        return bool(stream.getsockname()[1] == last)

    return swapped(make(), stream, attempt)


def dial_behind_unix(host: str, port: int) -> bool:
    """Connects a unix socket whose number another thread keeps giving to a stream; whether that ever arrived."""
    stream = socket.socket()
    stream.settimeout(3)
    name = named(host, port)

    def attempt(slot: int) -> bool:
        _libc.connect(slot, name, len(name))
        try:
            return bool(stream.getpeername())
        except OSError:
            return False

    return swapped(socket.socket(socket.AF_UNIX), stream, attempt)


#: Waits for the first word that `rdi` points to; then connects with the three that follow, and ends.
_CONNECT_WHEN_TOLD = bytes.fromhex("4889fbf390488b034885c074f6488b7b08488b7310488b5318b82a0000000f0531ffb83c0000000f05")
#: CLONE_VM, CLONE_FS, CLONE_SIGHAND, CLONE_THREAD, CLONE_SYSVSEM, but not CLONE_FILES.
_WITHOUT_FILES = 0x00050B00


def dial_apart(host: str, port: int) -> bool:
    """Connects from a thread whose table has a stream where its process's has a unix socket; whether that arrived."""
    if not IS_X86:
        return False
    stream = socket.socket()
    slot = os.dup(stream.fileno())
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(_CONNECT_WHEN_TOLD)
    stack = ctypes.create_string_buffer(1 << 16)
    name = ctypes.create_string_buffer(named(host, port), 16)
    order = (ctypes.c_uint64 * 4)(0, slot, ctypes.addressof(name), 16)
    _libc.clone.restype = ctypes.c_int
    start = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    top = ctypes.c_void_p((ctypes.addressof(stack) + len(stack)) & ~15)
    if _libc.clone(start, top, _WITHOUT_FILES, ctypes.byref(order)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    with socket.socket(socket.AF_UNIX) as harmless:
        os.dup2(harmless.fileno(), slot)
        order[0] = 1
        until = time.monotonic() + RACE_SECONDS
        while time.monotonic() < until:
            try:
                return bool(stream.getpeername())
            except OSError:
                time.sleep(0.01)
    return False


def hide() -> None:
    """From now on no process of the same user can tell what this one holds."""
    _libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def hide_program() -> None:
    """Leaves a program running that its own user may not read, and of which the kernel tells as little."""
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "hidden-%d" % os.getpid())
    shutil.copy("/bin/sleep", path)
    os.chmod(path, 0o111)
    subprocess.Popen([path, "30"])
    os.unlink(path)


def listen_anywhere() -> socket.socket:
    """A server at a port that the kernel chooses."""
    server = socket.socket()
    server.listen()
    return server


def forge_notes(port: int) -> None:
    """Says that this app listens at a port, in a file like those that keepers have, and shows it to its own keeper.

    The keeper copies what an app wants to listen with, and holds that for a moment.
    """
    notes = os.memfd_create("millrace-listeners")
    with open("/proc/net/tcp", encoding="ascii") as rows:
        for words in (row.split() for row in rows):
            if words[1].endswith(":%04X" % port):
                os.write(notes, struct.pack("=Q", int(words[9])))

    def show() -> None:
        while True:
            _libc.listen(notes, 1)

    threading.Thread(target=show, daemon=True).start()


def dial_among_closing(port: int) -> bool:
    """Connects while many sockets close that the kernel keeps beside the one at that port; whether it ever arrived."""
    # The kernel's table has at most 65,536 rows, by address and port, and on most machines half of that or less.
    beside = port ^ (0x8000 if port >= 0x8400 or port < 0x8000 else 0x4000)
    until = time.monotonic() + 2 * RACE_SECONDS
    while time.monotonic() < until:
        held = [socket.socket() for _ in range(300)]
        for each in held:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            each.bind(("127.0.0.1", beside))
            each.listen(1)
        closing = threading.Thread(target=_close_last_first, args=(held,))
        closing.start()
        while closing.is_alive():
            with socket.socket() as connection:
                if connection.connect_ex(("127.0.0.1", port)) == 0:
                    return True
        closing.join()
    return False


def _close_last_first(held: "list[socket.socket]") -> None:
    while held:
        held.pop().close()


def _changing(names: "list[bytes]") -> "Iterator[ctypes.Array[ctypes.c_char]]":
    """An address in memory that another thread keeps changing, once for each attempt as long as they race."""
    held = ctypes.create_string_buffer(16)

    def change() -> None:
        for name in names:
            ctypes.memmove(held, name, len(name))

    for _ in _race(change):
        yield held


def dial_changing(innocent: "tuple[str, int]", wanted: "tuple[str, int]") -> bool:
    """Connects to an address in memory that another thread keeps changing; whether it was ever the wanted one."""
    for held in _changing([named(*innocent), named(*wanted)]):
        with socket.socket() as connection:
            if _libc.connect(connection.fileno(), held, 16) == 0 and connection.getpeername()[1] == wanted[1]:
                return True
    return False


def take_port(ports: "list[int]", host: str = "127.0.0.1") -> None:
    """Listens on one of those ports, from the last down to the first."""
    last, first = ports
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as server:
        for port in range(last, first, -1):
            try:
                server.bind((host, port))
                server.listen()
                return
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def take_port_unnamed(ports: "list[int]") -> None:
    """The same with a name of no family, which counts for every address."""
    last, _ = ports
    name = bytes(2) + struct.pack("!H", last) + bytes(12)
    with socket.socket() as server:
        if _libc.bind(server.fileno(), name, len(name)) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def take_port_changing(ports: "list[int]") -> bool:
    """Binds a datagram socket whose number another thread keeps giving to a stream; whether that ever got the port."""
    last, _ = ports
    stream = socket.socket()
    slot = os.dup(stream.fileno())

    def change() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            os.dup2(datagrams.fileno(), slot)
            os.dup2(stream.fileno(), slot)

    name = named("127.0.0.1", last)
    for _ in _race(change):
        _libc.bind(slot, name, len(name))
        if stream.getsockname()[1] == last:
            return True
    return False


def take_port_shared(port: int) -> int:
    """Listens on a port that others may share; gives the one that the socket really has."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("127.0.0.1", port))
    server.listen()
    return int(server.getsockname()[1])


def take_port_swapping(innocent: int, wanted: "tuple[int, ...]") -> bool:
    """Binds an address in memory whose port another thread keeps changing; whether it was ever a wanted one."""
    for held in _changing([named("127.0.0.1", port) for port in (innocent, *wanted)]):
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if _libc.bind(server.fileno(), held, 16) == 0 and server.getsockname()[1] in wanted:
                return True
    return False


def port_behind(host: str, port: int) -> int:
    """Asks the server of this kind that answers there for the port that it really has."""
    with socket.create_connection((host, port), 3) as connection:
        connection.sendall(b"POST /port HTTP/1.0\r\n\r\n")
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return int(answer.partition(b'"result":')[2].partition(b",")[0])
