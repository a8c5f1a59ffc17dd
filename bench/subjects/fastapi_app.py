"""The peer: the same functions on FastAPI and uvicorn, set up as its own documentation does for speed."""

import json
import os
import socket
import sys
import threading

import uvicorn
from fastapi import FastAPI
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
    config = uvicorn.Config(app, loop="uvloop", http="httptools", workers=1, access_log=False, log_level="warning")
    AnnouncingServer(config).run(sockets=[listener])
