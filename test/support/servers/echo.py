"""A server of an app's own, with the standard library alone: tells what it got, and does what its path says."""

import hashlib
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

#: What `/healthz` and `/readyz` answer.
STATE = {"health": 200, "ready": 200}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do(self):
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        act = getattr(self, "at_" + url.path.strip("/").replace("/", "_").replace("-", "_"), self.at_echo)
        act(query)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = do

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            pieces = []
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                if size == 0:
                    while self.rfile.readline().strip():
                        pass
                    return b"".join(pieces)
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, status, body, kind="application/json", headers=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def at_echo(self, query):
        body = self.body()
        told = {
            "method": self.command,
            "path": self.path,
            "headers": [[name, value] for name, value in self.headers.items()],
            "bytes": len(body),
            "body": body[:1000].decode("latin-1"),
            "pid": os.getpid(),
            "port": os.environ["PORT"],
        }
        self.answer(int(query.get("status", 200)), json.dumps(told).encode())

    def at_hash(self, _query):
        """The body's hash, read as it comes."""
        digest = hashlib.sha256()
        left = int(self.headers["Content-Length"])
        while left:
            piece = self.rfile.read(min(left, 65536))
            digest.update(piece)
            left -= len(piece)
        self.answer(200, digest.hexdigest().encode(), "text/plain")

    def at_bytes(self, query):
        count = int(query["count"])
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(count))
        self.end_headers()
        piece = b"x" * 65536
        sent = 0
        while sent < count:
            self.wfile.write(piece[: count - sent])
            sent += min(len(piece), count - sent)
            print("sent", sent, flush=True)

    def at_stream(self, query):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Trailer", "X-Sum")
        self.end_headers()
        for number in range(int(query.get("count", 3))):
            self.chunk(b"data: %d\n\n" % number)
        self.wfile.write(b"0\r\nX-Sum: 42\r\n\r\n")

    def at_forever(self, _query):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.chunk(b"begun\n")
        try:
            while True:
                self.chunk(b"more\n")
                time.sleep(0.02)
        except OSError:
            print("the caller has gone", flush=True)
            self.close_connection = True

    def at_slow(self, query):
        self.body()
        print("slow has begun", flush=True)
        while not os.path.exists(query.get("until", "go")):
            time.sleep(0.02)
        self.answer(200, b'{"slow":true}')

    def at_cookies(self, _query):
        headers = [("Set-Cookie", "millrace_refresh=evil"), ("Set-Cookie", "mine=1"), ("X-Request-Id", "own")]
        self.answer(200, b"{}", headers=[*headers, ("Connection", "X-Hop"), ("X-Hop", "1"), ("X-Kept", "2")])

    def at_early(self, _query):
        """Answers without the body."""
        self.answer(413, b'{"early":true}', headers=[("Connection", "close")])
        self.close_connection = True

    def at_state(self, query):
        STATE.update({name: int(value) for name, value in query.items()})
        self.answer(200, b"{}")

    def at_healthz(self, _query):
        self.answer(STATE["health"], b"{}")

    def at_readyz(self, _query):
        self.answer(STATE["ready"], b"{}")

    def at_exit(self, _query):
        os._exit(3)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, format, *args):  # The name that the standard library gave it.
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


if __name__ == "__main__":
    port = int(sys.argv[sys.argv.index("--port") + 1]) if "--port" in sys.argv else int(os.environ["PORT"])
    print("serving", flush=True)
    Server(("127.0.0.1", port), Handler).serve_forever()
