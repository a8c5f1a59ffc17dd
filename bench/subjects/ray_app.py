"""The peer: a batched function on Ray Serve. `ray_app.py DIR SIZE WAIT_MS VARIANT` serves it with one replica.

The variant `loop` sleeps in the event loop, others in a thread, so that calls are collected meanwhile. In place of a
call it takes other settings, too.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import threading
import time
from typing import Any

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

_, folder, size, wait_ms, variant = sys.argv


def sleep(items: int) -> None:
    time.sleep(0.005 + 0.0002 * items)


class Batched:
    @serve.batch(max_batch_size=int(size), batch_wait_timeout_s=float(wait_ms) / 1000)
    async def work(self, n: list[int]) -> list[int]:
        if variant == "loop":
            sleep(len(n))
        else:
            await asyncio.to_thread(sleep, len(n))
        return n

    async def __call__(self, request: Request) -> JSONResponse:
        fields = await request.json()
        if "size" in fields:
            self.work.set_max_batch_size(fields["size"])  # type: ignore[attr-defined]
            self.work.set_batch_wait_timeout_s(fields["wait_ms"] / 1000)  # type: ignore[attr-defined]
            return JSONResponse({})
        return JSONResponse({"result": await self.work(fields["n"])})


def end() -> None:
    ray.shutdown()
    os._exit(0)


def end_with_parent() -> None:
    sys.stdin.buffer.read()
    end()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: end())
    threading.Thread(target=end_with_parent, daemon=True).start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # One logical CPU for each actor: the proxy, the controller and the replica share the machine as they like.
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level="ERROR", _temp_dir=folder)
    quiet = {"encoding": "TEXT", "log_level": "ERROR", "enable_access_log": False}
    serve.start(http_options={"host": "127.0.0.1", "port": port}, logging_config=quiet)
    deployment: Any = serve.deployment(
        num_replicas=1, max_ongoing_requests=2000, max_queued_requests=-1, logging_config=quiet
    )(Batched)
    serve.run(deployment.bind(), route_prefix="/work")
    print(json.dumps({"url": f"http://127.0.0.1:{port}/work"}), flush=True)
    threading.Event().wait()
