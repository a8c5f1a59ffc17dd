"""Tries to reach an address in every way there is, and says what came of it: what the other end said, or an error."""

import array
import asyncio
import ctypes
import errno
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from typing import Any, Callable

#: More than it took to win such a race whenever the address was read twice.
ATTEMPTS = 100
_libc = ctypes.CDLL(None, use_errno=True)


def _said(connection: socket.socket) -> str:
    connection.settimeout(20)
    with connection:
        return connection.recv(100).decode()


def _plain(host: str, port: int) -> str:
    return _said(socket.create_connection((host, port)))


def _timeout(host: str, port: int) -> str:
    return _said(socket.create_connection((host, port), timeout=20))


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
        sender.settimeout(20)
        return sender.recv(100).decode()


def _datagram_message(host: str, port: int) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendmsg([b"x"], [], 0, (host, port))
        sender.settimeout(20)
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


def all_ways(host: str, port: int, ways: list[str]) -> dict[str, str]:
    return {how: reach(how, host, port) for how in ways}


_servers: list[socket.socket] = []


def serve(said: str, host: str = "127.0.0.1") -> int:
    """Listens until the replica ends, and says that to everybody."""
    server = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    _servers.append(server)

    def answer() -> None:
        while True:
            connection, _ = server.accept()
            with connection:
                connection.sendall(said.encode())

    threading.Thread(target=answer, daemon=True).start()
    return int(server.getsockname()[1])


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read(100).decode())


def names() -> list[str]:
    return sorted({str(found[4][0]) for found in socket.getaddrinfo("localhost", 80)})


def at_once(host: str, port: int, count: int) -> list[str]:
    """Blocking connections from as many threads."""
    said: list[str] = []
    threads = [threading.Thread(target=lambda: said.append(reach("plain", host, port))) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said


def in_loop(host: str, port: int, count: int) -> list[str]:
    async def talk() -> str:
        reader, writer = await asyncio.open_connection(host, port)
        said = await reader.read(100)
        writer.close()
        return said.decode()

    async def all_of_them() -> list[str]:
        return list(await asyncio.gather(*(talk() for _ in range(count))))

    return asyncio.run(all_of_them())


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


class _Deaf:
    """A port whose queue is full: nobody answers there until it is emptied."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.address = self.server.getsockname()
        self.fillers: list[socket.socket] = []
        while True:
            filler = socket.socket()
            filler.settimeout(0.5)
            self.fillers.append(filler)
            if filler.connect_ex(self.address) != 0:
                break

    def hear(self) -> None:
        """Takes whoever comes."""

        def answer() -> None:
            while True:
                self.server.accept()[0].sendall(b"late")

        threading.Thread(target=answer, daemon=True).start()


def unanswered(host: str, port: int) -> dict[str, Any]:
    """What happens to connections that nobody answers, and to others beside them."""
    deaf = _Deaf()
    result: dict[str, Any] = {}
    late: list[str] = []
    waiting = threading.Thread(target=lambda: late.append(reach("plain", *deaf.address)))
    waiting.start()
    child = os.fork()
    if child == 0:
        socket.socket().connect(deaf.address)
        os._exit(0)
    result["beside"] = [reach("plain", host, port) for _ in range(3)]
    os.kill(child, signal.SIGKILL)
    result["killed"] = os.waitpid(child, 0)[1]
    with socket.socket() as limited:
        limited.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", 0, 200_000))
        result["limited"] = errno.errorcode[limited.connect_ex(deaf.address)]
    with socket.socket() as patient:
        patient.settimeout(0.2)
        try:
            patient.connect(deaf.address)
        except TimeoutError as error:
            result["timeout"] = type(error).__name__
    result["interrupted"] = _interrupted(deaf.address)
    deaf.hear()
    waiting.join()
    result["late"] = late
    return result


def _interrupted(address: tuple[str, int]) -> bool:
    """A signal whose handler raises gets through while the connection waits."""

    class Stop(Exception):
        pass

    def stop(number: int, frame: object) -> None:
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with socket.socket() as connection:
            connection.connect(address)
    except Stop:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return False


def cost(host: str, port: int, count: int) -> float:
    """Microseconds for one connection, the best of five rounds."""
    rounds: list[float] = []
    for _ in range(5):
        started_at = time.perf_counter()
        for _ in range(count):
            with socket.socket() as connection:
                connection.connect((host, port))
        rounds.append((time.perf_counter() - started_at) / count * 1e6)
    return min(rounds)


def unix_sockets() -> str:
    """By path, between processes of the app."""
    path = os.path.join(os.environ["HOME"], "own.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            server.accept()[0].sendall(b"heard")
            return client.recv(100).decode()
