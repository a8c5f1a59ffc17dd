"""Makes the system calls that CUDA makes when it starts, as they were traced on an H200, and says how each ended."""

import ctypes
import errno
import json
import multiprocessing.connection
import os
import socket
import threading
from typing import Callable

_libc = ctypes.CDLL(None, use_errno=True)


def _ended(attempt: Callable[[], object]) -> object:
    try:
        return attempt()
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def _waits_at_a_name() -> str:
    """For other processes of the same app that want its memory: a name without a path."""
    name = "\0cuda-uvmfd-4026531836-%d\0" % os.getpid()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(name)
        server.listen(16)
        child = os.fork()
        if child == 0:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.connect(name)
                client.send(b"found")
            os._exit(0)
        connection, _ = server.accept()
        os.waitpid(child, 0)
        with connection:
            return connection.recv(10).decode()


def _looks_for_a_server() -> None:
    """NVIDIA's MPS. Any other error than that there is none ends CUDA."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect("/tmp/nvidia-mps/control")


def _names_a_thread() -> str:
    """As C's `fopen(path, "w")` opens it: another thread than the one that writes."""
    named, over = threading.Event(), threading.Event()
    found: list[str] = []

    def live() -> None:
        named.wait()
        with open("/proc/thread-self/comm", encoding="ascii") as comm:
            found.append(comm.read().strip())
        over.set()

    thread = threading.Thread(target=live)
    thread.start()
    try:
        path = b"/proc/self/task/%d/comm" % (thread.native_id or 0)
        descriptor = _libc.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), "open")
        os.write(descriptor, b"cuda-EvtHandlr")
        os.close(descriptor)
    finally:
        named.set()
        thread.join()
    return found[0]


def _shares_descriptors() -> str:
    """By a socket with a path, as `torch.multiprocessing` and data loaders do."""
    listener = multiprocessing.connection.Listener(family="AF_UNIX", authkey=b"x")
    child = os.fork()
    if child == 0:
        try:
            multiprocessing.connection.Client(listener.address, authkey=b"x").send("shared")
        finally:
            os._exit(0)
    with listener, _in_time(listener).accept() as connection:
        said = str(connection.recv())
    os.waitpid(child, 0)
    return said


def _in_time(listener: multiprocessing.connection.Listener) -> multiprocessing.connection.Listener:
    """Raises instead of waiting for ever for a client that could not connect."""
    listener._listener._socket.settimeout(60)  # pyright: ignore
    return listener


def _writes_memory_of_others() -> None:
    """Not of CUDA's: what opening up all of /proc would allow."""
    os.close(os.open("/proc/%d/mem" % os.getppid(), os.O_WRONLY))


def _changes_the_kernel() -> None:
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))


_CALLS = {
    "name": _waits_at_a_name,
    "server": _looks_for_a_server,
    "thread": _names_a_thread,
    "path": _shares_descriptors,
    "memory": _writes_memory_of_others,
    "kernel": _changes_the_kernel,
}
print(json.dumps({name: _ended(call) for name, call in _CALLS.items()}))
