"""The stream floor's worker: iterates the bench apps' own generators and sends their chunks joined.

`stream_worker.py SOCKET APP`: `tokens` runs calls one after the other, `ticks` on one event loop.
"""

import asyncio
import importlib
import json
import os
import socket
import struct
import sys
import time

HEAD = struct.Struct("<IIB")  # payload length, call id, type
CHUNK, END = 2, 3
JOIN_BYTES = 32 * 1024
JOIN_SECONDS = 0.001


def calls_in(pending):
    """Takes the whole frames out of `pending`."""
    calls, offset = [], 0
    while len(pending) - offset >= HEAD.size:
        length, call_id, _ = HEAD.unpack_from(pending, offset)
        start = offset + HEAD.size
        if len(pending) < start + length:
            break
        offset = start + length
        calls.append((call_id, json.loads(bytes(pending[start:offset]))))
    del pending[:offset]
    return calls


def serve_one_by_one(wire, run):
    clock, pack = time.perf_counter, HEAD.pack
    pending = bytearray()
    while received := wire.recv(1 << 16):
        pending += received
        for call_id, arguments in calls_in(pending):
            joined = bytearray()
            sent_at = clock()
            for chunk in run(**arguments):
                payload = chunk.encode()
                joined += pack(len(payload), call_id, CHUNK)
                joined += payload
                if len(joined) >= JOIN_BYTES or clock() - sent_at >= JOIN_SECONDS:
                    wire.sendall(joined)
                    joined = bytearray()
                    sent_at = clock()
            wire.sendall(joined + pack(0, call_id, END))


class Looped:
    def __init__(self, wire, run):
        self.wire, self.run, self.loop = wire, run, asyncio.get_running_loop()
        self.pending, self.joined = bytearray(), bytearray()
        self.sent_at, self.is_due, self.tasks = 0.0, False, set()
        self.ended = self.loop.create_future()
        self.loop.add_reader(wire.fileno(), self.readable)

    def readable(self):
        received = self.wire.recv(1 << 16)
        if not received:
            self.ended.set_result(None)
        self.pending += received
        for call_id, arguments in calls_in(self.pending):
            task = self.loop.create_task(self.stream(call_id, arguments))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def stream(self, call_id, arguments):
        async for chunk in self.run(**arguments):
            self.send(call_id, CHUNK, chunk.encode())
        self.send(call_id, END, b"")

    def send(self, call_id, kind, payload):
        self.joined += HEAD.pack(len(payload), call_id, kind)
        self.joined += payload
        if len(self.joined) >= JOIN_BYTES:
            self.flush()
        elif not self.is_due:
            self.is_due = True
            # What the loop has ready now still joins; within the millisecond after a send, all of it does.
            if self.loop.time() - self.sent_at >= JOIN_SECONDS:
                self.loop.call_soon(self.flush_due)
            else:
                self.loop.call_later(JOIN_SECONDS, self.flush_due)

    def flush_due(self):
        self.is_due = False
        self.flush()

    def flush(self):
        if self.joined:
            self.wire.sendall(self.joined)
            self.joined = bytearray()
            self.sent_at = self.loop.time()


async def serve_looped(wire, run):
    await Looped(wire, run).ended


socket_path, app = sys.argv[1:]
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../apps", app))
run = importlib.import_module("main").run
with socket.socket(socket.AF_UNIX) as wire:
    wire.connect(socket_path)
    if app == "tokens":
        serve_one_by_one(wire, run)
    else:
        asyncio.run(serve_looped(wire, run))
