"""The hostile app as a server of its own, with its port in the code: what a replica's port is must not get it out."""

import json
import os
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable

import hostile

#: What its configuration declares. Every replica of every such app has another in its place.
DECLARED = 8000


def port() -> int:
    """The port that this replica really has."""
    return int(os.environ["PORT"])


_ACTS: dict[str, Callable[..., Any]] = {
    "/port": port,
    "/answer": hostile.answer,
    "/attack": hostile.attack,
    "/attack_each": hostile.attack_each,
}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Calls a function by its path, and answers as a function's call is answered."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        arguments: dict[str, Any] = json.loads(body or b"{}")
        result = json.dumps(_ACTS[self.path](**arguments), separators=(",", ":"))
        answer = '{"run_id":"%s","result":%s,"run_time_ms":0}' % (self.headers.get("X-Request-Id", "0" * 36), result)
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, format: str, *args: object) -> None:  # The name that the library gave it.
        pass


class _Server(ThreadingHTTPServer):
    def server_bind(self) -> None:
        # Another server that may share the port gets some of its calls.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()


if __name__ == "__main__":
    _Server(("127.0.0.1", DECLARED), _Handler).serve_forever()
