"""The peer: the same functions on FastAPI and uvicorn, set up as its own documentation does for speed."""

import asyncio
import json
import os
import random
import socket
import sys
import threading
import time

import uvicorn
from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

app = FastAPI()


class Call(BaseModel):
    name: str = "x"
    n: int = 1


# `async def` keeps FastAPI from handing each call to a thread: the faster of its two ways.
@app.post("/run")
async def run(call: Call):
    return {"message": "hello " + call.name, "n": call.n}


class Stream(BaseModel):
    n: int


# Both ways to stream that it offers; the bench takes the faster.
@app.post("/async-generator")
async def stream_async(call: Stream):
    async def messages():
        for i in range(call.n):
            yield "data: token %d\n\n" % i

    return StreamingResponse(messages(), media_type="text/event-stream")


@app.post("/generator")
async def stream_plain(call: Stream):
    def messages():
        for i in range(call.n):
            yield "data: token %d\n\n" % i

    return StreamingResponse(messages(), media_type="text/event-stream")


# What else passes through a server app: large bodies, paced streams, WebSockets.
@app.post("/upload")
async def upload(request: Request):
    count = 0
    async for piece in request.stream():
        count += len(piece)
    return {"bytes": count}


@app.get("/download")
async def download(pieces: int):
    piece = bytes(64 * 1024)

    async def body():
        for _ in range(pieces):
            yield piece

    headers = {"Content-Length": str(pieces * len(piece))}
    return StreamingResponse(body(), media_type="application/octet-stream", headers=headers)


class Ticks(BaseModel):
    per_second: float
    start: float
    until: float


# As the app `ticks` does it.
@app.post("/ticks")
async def ticks(call: Ticks):
    async def messages():
        yield "data: %d\n\n" % time.time_ns()
        due = call.start + random.random() / call.per_second
        while max(due, time.time()) < call.until:
            await asyncio.sleep(due - time.time())
            yield "data: %d\n\n" % time.time_ns()
            due += 1 / call.per_second

    return StreamingResponse(messages(), media_type="text/event-stream")


@app.websocket("/frames")
async def frames(peer: WebSocket):
    await peer.accept()
    async for text in peer.iter_text():
        await peer.send_text(text)


class AnnouncingServer(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        assert sockets
        port = sockets[0].getsockname()[1]
        print(json.dumps({"url": f"http://127.0.0.1:{port}"}), flush=True)


def end_with_parent():
    sys.stdin.buffer.read()
    os._exit(0)


# As a server app it is imported, and started by uvicorn itself.
if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    speed = {"loop": "uvloop", "http": "httptools", "workers": 1, "backlog": 2048}
    quiet = {"access_log": False, "log_level": "warning", "ws_ping_interval": None}
    AnnouncingServer(uvicorn.Config(app, **speed, **quiet)).run(sockets=[listener])
