"""The peer: a batched function on LitServe. `litserve_app.py SIZE WAIT_MS VARIANT` serves it with one worker.

Variants: `queue` as LitServe comes, `fast` with its ZeroMQ queue.
"""

import json
import os
import socket
import sys
import threading
import time
from typing import Any

import litserve
from fastapi import Request


class Batched(litserve.LitAPI):
    def setup(self, device: str) -> None:
        pass

    def decode_request(self, request: Request, **_: Any) -> int:
        fields: Any = request  # The body, for all that its type says.
        return fields["n"]

    def batch(self, inputs: list[int]) -> list[int]:
        return inputs

    def predict(self, n: Any, **_: Any) -> Any:
        time.sleep(0.005 + 0.0002 * len(n))
        return n

    def unbatch(self, output: list[int]) -> list[int]:
        return output

    def encode_response(self, output: int, **_: Any) -> Any:
        return {"result": output}


def end_with_parent() -> None:
    # Not `sys.stdin`: its lock would be held in each process that the server forks.
    while os.read(0, 4096):
        pass
    os._exit(0)


def announce(port: int) -> None:
    """Once the server answers."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.05)
    print(json.dumps({"url": f"http://127.0.0.1:{port}/predict"}), flush=True)


if __name__ == "__main__":
    _, size, wait_ms, variant = sys.argv
    threading.Thread(target=end_with_parent, daemon=True).start()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    threading.Thread(target=announce, args=(port,), daemon=True).start()
    api = Batched(max_batch_size=int(size), batch_timeout=float(wait_ms) / 1000)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1, timeout=60, fast_queue=variant == "fast")
    server.run(host="127.0.0.1", port=port, num_api_servers=1, log_level="error", generate_client_file=False)
