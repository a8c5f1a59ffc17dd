"""The floor's worker: reads call frames, runs the function, writes reply frames."""

import json
import socket
import struct
import sys
import time

HEAD = struct.Struct("<IIB")  # payload length, call id, type
REPLY = 2


def run(name="x", n=1):
    return {"message": "hello " + name, "n": n}


def serve(wire):
    loads, dumps, clock = json.loads, json.dumps, time.perf_counter
    head_bytes = HEAD.size
    received = bytearray(1 << 16)
    window = memoryview(received)
    pending = bytearray()
    while count := wire.recv_into(received):
        pending += window[:count]
        size = len(pending)
        offset = 0
        replies = []
        while size - offset >= head_bytes:
            length, call_id, _ = HEAD.unpack_from(pending, offset)
            start = offset + head_bytes
            end = start + length
            if size < end:
                break
            started = clock()
            result = run(**loads(bytes(pending[start:end])))
            payload = dumps({"result": result, "run_time_ms": (clock() - started) * 1000}).encode()
            replies.append(HEAD.pack(len(payload), call_id, REPLY))
            replies.append(payload)
            offset = end
        del pending[:offset]
        if replies:
            wire.sendall(b"".join(replies))


with socket.socket(socket.AF_UNIX) as wire:
    wire.connect(sys.argv[1])
    serve(wire)
