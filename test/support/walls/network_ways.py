"""Tries to reach an address in every way there is, and says what came of it: what the other end said, or an error."""

import array
import asyncio
import ctypes
import errno
import os
import socket
import struct
import subprocess
import sys
import threading
from typing import Callable

#: More than it took to win such a race whenever the address was read twice.
ATTEMPTS = 100
_libc = ctypes.CDLL(None, use_errno=True)


def _said(connection: socket.socket) -> str:
    connection.settimeout(120)
    with connection:
        return connection.recv(100).decode()


def _plain(host: str, port: int) -> str:
    return _said(socket.create_connection((host, port)))


def _timeout(host: str, port: int) -> str:
    return _said(socket.create_connection((host, port), timeout=120))


def _nonblocking(host: str, port: int) -> str:
    connection = socket.socket()
    connection.setblocking(False)
    code = connection.connect_ex((host, port))
    if code not in (0, errno.EINPROGRESS):
        raise OSError(code, os.strerror(code))
    return _said(connection)


def _mapped(host: str, port: int) -> str:
    connection = socket.socket(socket.AF_INET6)
    connection.connect(("::ffff:" + host, port))
    return _said(connection)


def _unspecified_first(host: str, port: int) -> str:
    connection = socket.socket()
    name = struct.pack("=H14x", socket.AF_UNSPEC)
    _libc.connect(connection.fileno(), name, len(name))
    connection.connect((host, port))
    return _said(connection)


def _fast_open(host: str, port: int) -> str:
    connection = socket.socket()
    connection.sendto(b"x", socket.MSG_FASTOPEN, (host, port))
    return _said(connection)


def _fast_open_message(host: str, port: int) -> str:
    connection = socket.socket()
    connection.sendmsg([b"x"], [], socket.MSG_FASTOPEN, (host, port))
    return _said(connection)


def _fast_open_later(host: str, port: int) -> str:
    connection = socket.socket()
    connection.setsockopt(socket.IPPROTO_TCP, 30, 1)  # TCP_FASTOPEN_CONNECT
    connection.connect((host, port))
    connection.send(b"x")
    return _said(connection)


def _in_child(host: str, port: int) -> str:
    return _from_process(lambda: _plain(host, port))


def _in_thread(host: str, port: int) -> str:
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(reach("plain", host, port)))
    thread.start()
    thread.join()
    return said[0]


def _by_program(host: str, port: int) -> str:
    code = "import socket; print(socket.create_connection((%r, %d), 20).recv(100).decode())" % (host, port)
    ended = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    return ended.stdout.strip() or ended.stderr.strip().splitlines()[-1]


def _by_passed_socket(host: str, port: int) -> str:
    """A socket that another process has made."""
    mine, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        made = socket.socket()
        rights = array.array("i", [made.fileno()])
        theirs.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        os._exit(0)
    _, descriptors, _, _ = socket.recv_fds(mine, 1, 1)
    os.waitpid(child, 0)
    connection = socket.socket(fileno=descriptors[0])
    connection.connect((host, port))
    return _said(connection)


def _by_loop(host: str, port: int) -> str:
    async def talk() -> str:
        reader, writer = await asyncio.open_connection(host, port)
        said = await reader.read(100)
        writer.close()
        return said.decode()

    return asyncio.run(talk())


def _in_a_second_thread_of_descriptors(host: str, port: int) -> str:
    """While one thread connects somewhere permitted, another puts a second socket in the place of the first."""
    return _race(host, port, by_descriptor=True)


def _with_changing_address(host: str, port: int) -> str:
    """While one thread connects somewhere permitted, another changes where to."""
    return _race(host, port, by_descriptor=False)


def _behind_unix(host: str, port: int) -> str:
    """A unix socket is asked for, which nobody judges, and another one is there when the kernel goes on."""
    with socket.socket(socket.AF_UNIX) as harmless:
        wanted = _name(host, port)
        is_over = threading.Event()
        target = os.dup(harmless.fileno())

        def meddle() -> None:
            while not is_over.is_set():
                with socket.socket() as other:
                    os.dup2(other.fileno(), target)
                os.dup2(harmless.fileno(), target)

        thread = threading.Thread(target=meddle)
        thread.start()
        last = 0
        try:
            for _ in range(ATTEMPTS):
                if _libc.connect(target, wanted, len(wanted)) == 0:
                    return "connected"
                last = ctypes.get_errno()
        finally:
            is_over.set()
            thread.join()
            os.close(target)
    return errno.errorcode[last]


def _race(host: str, port: int, by_descriptor: bool) -> str:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as own:
        permitted = _name("127.0.0.1", own.getsockname()[1])
        wanted = _name(host, port)
        place = ctypes.create_string_buffer(permitted, len(permitted))
        is_over = threading.Event()
        target = socket.socket().detach()

        def meddle() -> None:
            while not is_over.is_set():
                if by_descriptor:
                    other = socket.socket()
                    os.dup2(other.fileno(), target)
                    other.close()
                ctypes.memmove(place, wanted, len(wanted))
                ctypes.memmove(place, permitted, len(permitted))

        thread = threading.Thread(target=meddle)
        thread.start()
        last = 0
        try:
            for _ in range(ATTEMPTS):
                if not by_descriptor:
                    other = socket.socket()
                    os.dup2(other.fileno(), target)
                    other.close()
                if _libc.connect(target, place, len(permitted)) != 0:
                    last = ctypes.get_errno()
                    continue
                try:
                    copy = socket.socket(fileno=os.dup(target))
                    with copy:
                        if copy.getpeername() == (host, port):
                            return _said(copy)
                except OSError:
                    pass  # The other thread has put another one there already.
        finally:
            is_over.set()
            thread.join()
            os.close(target)
    return errno.errorcode.get(last or errno.EACCES, "?")


def _name(host: str, port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)


def _datagram(host: str, port: int) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", (host, port))
        sender.settimeout(120)
        return sender.recv(100).decode()


def _datagram_message(host: str, port: int) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendmsg([b"x"], [], 0, (host, port))
        sender.settimeout(120)
        return sender.recv(100).decode()


def _ping(host: str, port: int) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as sender:
        sender.sendto(bytes(8), (host, port))
        return "sent"


def _other_protocol(host: str, port: int) -> str:
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)  # MPTCP
    connection.connect((host, port))
    return _said(connection)


WAYS: dict[str, Callable[[str, int], str]] = {
    "plain": _plain,
    "timeout": _timeout,
    "nonblocking": _nonblocking,
    "mapped": _mapped,
    "unspecified first": _unspecified_first,
    "fast open": _fast_open,
    "fast open by message": _fast_open_message,
    "fast open later": _fast_open_later,
    "child": _in_child,
    "thread": _in_thread,
    "program": _by_program,
    "passed socket": _by_passed_socket,
    "event loop": _by_loop,
    "changing descriptor": _in_a_second_thread_of_descriptors,
    "changing address": _with_changing_address,
    "behind a unix socket": _behind_unix,
    "other protocol": _other_protocol,
    "datagram": _datagram,
    "datagram by message": _datagram_message,
    "ping": _ping,
}


def reach(how: str, host: str, port: int) -> str:
    try:
        return WAYS[how](host, port)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))


def _from_process(work: Callable[[], str]) -> str:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = work()
        except OSError as error:
            said = errno.errorcode.get(error.errno or 0, str(error))
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as source:
        said = source.read().decode()
    os.waitpid(child, 0)
    return said
