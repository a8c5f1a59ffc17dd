"""Runs what a test asks for, beside the ways to reach an address, and says what came of it."""

import asyncio
import errno
import os
import signal
import socket
import struct
import threading
import time
import urllib.request
from typing import Any

from network_ways import reach


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


def take(host: str, port: int, kind: str = "stream") -> str:
    """Takes a port for a moment; "taken", or what kept it from that."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM) as taker:
        try:
            taker.bind((host, port))
        except OSError as error:
            return errno.errorcode[error.errno or 0]
        return "taken"


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=120) as answer:
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
