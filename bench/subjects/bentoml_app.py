"""The peer: a batched function on BentoML. `bentoml_app.py DIR SIZE LATENCY_MS` serves it with one worker."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from typing import Any

import bentoml


class Work:
    # It predicts how long a batch takes, and refuses calls that would take longer than the latency.
    @bentoml.api(
        batchable=True,
        max_batch_size=int(os.environ.get("BENCH_SIZE", "2")),
        max_latency_ms=int(os.environ.get("BENCH_LATENCY_MS", "1000")),
    )
    def work(self, n: list[int]) -> list[int]:
        time.sleep(0.005 + 0.0002 * len(n))
        return n


Batched: Any = bentoml.service(workers=1, traffic={"timeout": 60, "max_concurrency": 2000})(Work)


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            return answer.status == 200
    except OSError:
        return False


def serve(folder: str, size: str, latency_ms: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    here = os.path.dirname(os.path.abspath(__file__))
    variables = {
        "BENTOML_HOME": folder,
        "BENTOML_DO_NOT_TRACK": "True",
        "BENCH_SIZE": size,
        "BENCH_LATENCY_MS": latency_ms,
    }
    command = [sys.executable, "-m", "bentoml", "serve", "bentoml_app:Batched", "--working-dir", here]
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )

    def end(*_: Any) -> None:
        # Its workers are in sessions of their own: it has to end them itself.
        server.terminate()
        server.wait()
        os._exit(0)

    def end_with_parent() -> None:
        sys.stdin.buffer.read()
        end()

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=end_with_parent, daemon=True).start()
    while not is_ready(port):
        time.sleep(0.05)
    print(json.dumps({"url": f"http://127.0.0.1:{port}/work"}), flush=True)
    sys.exit(server.wait())


if __name__ == "__main__":
    serve(*sys.argv[1:])
