"""Frames of the wire and of the control connection: payload length, call id, type, payload.

`docs/wire.md` holds the same table; a test compares it with this file and with the service's side.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import NamedTuple

HEAD = struct.Struct("<IIB")
HEAD_BYTES = HEAD.size

# The wire, to the replica.
CALL = 1  # u8 length of the function's name, u8 attempt, u32 limit, 36 bytes run id, the name, the arguments as JSON
BATCH = 10  # u8 length of the name, u16 calls, the name; of each call: attempt, limit, run id, u32 length, arguments
RESUME = 11  # before a CALL: u64 stored chunks, u64 chunks stored with the checkpoint, the checkpoint as JSON
TRACE = 14  # before a CALL or BATCH, for one of its calls: 55 bytes `traceparent`, `tracestate`
# The wire, from the replica.
HELLO = 2  # JSON: Python's version, pid, functions, milliseconds of setup()
INIT_FAILED = 3  # JSON: message, traceback
RESULT = 4  # f64 milliseconds inside the function, u16 HTTP status, the result as JSON
FAILED = 5  # JSON: kind, message, traceback, details, run_ms
STREAM = 6  # the function gave an iterator: chunks follow
CHUNK = 7  # u8 (0 text, 1 JSON), the chunk
END = 8  # f64 milliseconds: the iterator is exhausted
CANCELLED = 9  # the call was stopped by a cancel
CHECKPOINT = 12  # the value as JSON; answered by CHECKPOINTED
PROGRESS = 13  # f64 fraction (NaN: none), the message as UTF-8 (empty: none)
# The control connection, to the replica.
CANCEL = 32  # stop this call, begun or not
WITHDRAW = 33  # give this call back unless it has begun
CREDIT = 34  # u32: so many more bytes of CHUNK frames may be sent
STOP = 35  # finish what has begun, then exit
PING = 38  # say that you live
CHECKPOINTED = 40  # u32: 0 it is stored, 1 not kept because a caller waits for the run, 2 the call is over
# The control connection, from the replica.
WITHDRAWN = 36  # the call will never begin here
BEGUN = 37  # too late to withdraw
PONG = 39  # the interpreter runs

CHUNK_HEAD = struct.Struct("<IIBB")
RESULT_HEAD = struct.Struct("<dH")
MILLISECONDS = struct.Struct("<d")
COUNT = struct.Struct("<I")
#: The stored chunks of a RESUME, and those stored with its checkpoint.
RESUME_HEAD = struct.Struct("<QQ")
FRACTION = struct.Struct("<d")
RUN_ID_BYTES = 36
#: The length of a CALL's name, its attempt, its limit in milliseconds (0: none), its run.
CALL_HEAD = struct.Struct("<BBI36s")
#: The length of a BATCH's name, and how many calls it has.
BATCH_HEAD = struct.Struct("<BH")
#: Of each of them: attempt, limit, run, length of its arguments.
MEMBER_HEAD = struct.Struct("<BI36sI")

RECEIVE_BYTES = 256 * 1024


def pack(kind: int, call_id: int, payload: bytes = b"") -> bytes:
    return HEAD.pack(len(payload), call_id, kind) + payload


class FrameReader:
    """Splits the bytes of a connection into frames."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()
        self._window = bytearray(RECEIVE_BYTES)
        self._view = memoryview(self._window)

    def receive(self, flags: int = 0) -> list[tuple[int, int, bytes]] | None:
        """Waits for bytes; returns the frames (call id, type, payload) that they complete, None at the end."""
        received = self._connection.recv_into(self._window, 0, flags)
        if not received:
            return None
        buffer = self._buffer
        buffer += self._view[:received]
        frames: list[tuple[int, int, bytes]] = []
        offset = 0
        end = len(buffer)
        while end - offset >= HEAD_BYTES:
            length, call_id, kind = HEAD.unpack_from(buffer, offset)
            start = offset + HEAD_BYTES
            if end - start < length:
                break
            offset = start + length
            frames.append((call_id, kind, bytes(buffer[start:offset])))
        del buffer[:offset]
        return frames


class Given(NamedTuple):
    """A call as the service hands it over."""

    run_id: str
    attempt: int
    #: How long the service waits for it, in milliseconds; 0: without a limit.
    limit_ms: int
    #: The arguments, as JSON; empty if there are none.
    body: bytes


def split_call(payload: bytes) -> tuple[str, Given]:
    """A CALL's function and the rest of it."""
    name_bytes, attempt, limit_ms, run_id = CALL_HEAD.unpack_from(payload)
    end = CALL_HEAD.size + name_bytes
    name = payload[CALL_HEAD.size : end].decode("ascii")
    return name, Given(run_id.decode("ascii"), attempt, limit_ms, payload[end:])


def name_of(payload: bytes) -> bytes:
    """A CALL's function alone."""
    return payload[CALL_HEAD.size : CALL_HEAD.size + payload[0]]


def function_of(batch: bytes) -> str:
    """A BATCH's function alone."""
    return batch[BATCH_HEAD.size : BATCH_HEAD.size + batch[0]].decode("ascii")


def count_of(payload: bytes) -> int:
    """How many calls a BATCH has."""
    return BATCH_HEAD.unpack_from(payload)[1]


def split_batch(payload: bytes) -> tuple[str, list[Given]]:
    """A BATCH's function and its calls, whose ids count up from that of the frame."""
    name_bytes, count = BATCH_HEAD.unpack_from(payload)
    at = BATCH_HEAD.size + name_bytes
    name = payload[BATCH_HEAD.size : at].decode("ascii")
    calls: list[Given] = []
    for _ in range(count):
        attempt, limit_ms, run_id, body_bytes = MEMBER_HEAD.unpack_from(payload, at)
        at += MEMBER_HEAD.size
        calls.append(Given(run_id.decode("ascii"), attempt, limit_ms, payload[at : at + body_bytes]))
        at += body_bytes
    return name, calls


#: Instead of an address: behind walls a process asks its agent for connections, over this descriptor.
DOOR = "door"
DOOR_DESCRIPTOR = 3
_door: socket.socket | None = None


def find_door() -> None:
    """Takes the inherited door, so that no program of the app inherits it."""
    global _door
    os.set_inheritable(DOOR_DESCRIPTOR, False)
    _door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=DOOR_DESCRIPTOR)


def ask(kind: str, ticket: str) -> list[int]:
    """The agent's answer: the descriptors of a connection to the service, and of a lent file, if any."""
    if _door is None:
        raise ConnectionError("there is no door")
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with mine:
        with theirs:
            socket.send_fds(_door, [_preface(kind, ticket)], [theirs.fileno()])
        _, descriptors, _, _ = socket.recv_fds(mine, 1, 2)
    if not descriptors:
        raise ConnectionRefusedError("the service does not answer at the door")
    # Not by flags, which Python before 3.12 ignores: the app's programs would hold its replica's connections.
    for each in descriptors:
        os.set_inheritable(each, False)
    return descriptors


def connect(address: str, kind: str, ticket: str) -> socket.socket:
    """Opens a connection of one kind to the service and shows the ticket."""
    if address == DOOR:
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=ask(kind, ticket)[0])
    if address.startswith("/"):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(address)
        # As the agent adds it at the door, so that the process is under its own limits before it runs `setup`.
        connection.sendall(b"%s %d\n" % (_preface(kind, ticket), os.getpid()))
    else:
        host, _, port = address.rpartition(":")
        connection = socket.create_connection((host, int(port)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(_preface(kind, ticket) + b"\n")
    return connection


def _preface(kind: str, ticket: str) -> bytes:
    return ("millrace 1 %s %s" % (kind, ticket)).encode("ascii")


HELLO_BYTES = 2 * 1024 * 1024
FUNCTIONS = 1_000
#: How many calls a stepper may take at a time.
STEPPER_CALLS = 10_000
#: Of all functions together.
PARAMETERS = 10_000
#: JSON values inside the schemas of one function.
SCHEMA_VALUES = 5_000
#: Of all functions together.
APP_SCHEMA_VALUES = 20_000
#: Of a function, a parameter, an argument.
NAME_CHARS = 256
#: Each of a docstring, an annotation, a default as text.
NOTE_CHARS = 4_096
MESSAGE_CHARS = 8_192
#: The service keeps less of it.
TRACEBACK_CHARS = 65_536
#: Why a template does not fork.
REASON_CHARS = 1_000
#: Names of an exception's classes.
TYPES = 50
#: An exception may ask for a wait of this long: 30 days.
RETRY_AFTER_SECONDS = 2_592_000
CHECKPOINT_BYTES = 1024 * 1024
#: Of a message about progress; it takes four times as many bytes at most.
PROGRESS_CHARS = 500
#: Arguments that do not fit: as many are named, the others are counted.
MISFITS = 500
MISFIT_CHARS = 128


def short_name(name: str) -> str:
    """A name for an error message; the caller may have sent a very long one."""
    return name if len(name) <= MISFIT_CHARS else name[: MISFIT_CHARS - 1] + "\u2026"
