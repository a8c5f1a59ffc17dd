"""A server with its port in the code. Tells which process answers, and whom it reaches at that port."""

import json
import os
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

CODED = 8000
SECOND = 0
VERSION = 0
NAME = os.urandom(8).hex()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        own = int(os.environ["PORT"])
        told = {"name": NAME, "version": VERSION, "port": self.connection.getsockname()[1], "own": own}
        if self.path.startswith("/by/"):
            with urlopen("http://%s:%d/" % (self.path[4:], CODED), timeout=10) as answer:
                told = {**json.load(answer), "caller": NAME}
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):  # The name that the standard library gave it.
        pass


class Server(ThreadingHTTPServer):
    """On both families."""

    address_family = socket.AF_INET6
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


if __name__ == "__main__":
    if SECOND:
        second = socket.create_server(("127.0.0.1", SECOND))
    try:
        urlopen("http://127.0.0.1:%d/" % CODED)
        sys.exit("somebody answers before it listens")
    except OSError:
        pass
    Server(("::", CODED), Handler).serve_forever()
