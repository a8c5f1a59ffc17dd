"""The server of an app in an image. It listens on the port that stands here, and tells where it is."""

import json
import os
import signal
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))


def network() -> list[str]:
    with open("/proc/net/dev", encoding="ascii") as table:
        return sorted(line.split(":")[0].strip() for line in table if ":" in line)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        with open("/proc/self/status", encoding="ascii") as status:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
        body = json.dumps(
            {
                "path": self.path,
                "host": socket.gethostname(),
                "uid": os.getuid(),
                "cwd": os.getcwd(),
                "capabilities": fields["CapEff"],
                "no_new_privileges": fields["NoNewPrivs"],
                "network": network(),
                "storage": sorted(os.listdir("/persistent-storage")),
                "port": os.environ["PORT"],
                "secret": os.environ.get("SECRET"),
                "pem": os.environ.get("PEM"),
                "libraries": os.environ.get("XTABLES_LIBDIR"),
            }
        ).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


address = sys.argv[1] if len(sys.argv) > 1 else "0.0.0.0"
ThreadingHTTPServer((address, 8000), Handler).serve_forever()
