"""Tells what it runs in: the image of the Dockerfile, not the machine around it."""

import json
import os
import pathlib
import platform
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        built_at = pathlib.Path(__file__).with_name("built-at")
        told = {
            "python": platform.python_version(),
            "image_built_at": built_at.read_text().strip() if built_at.exists() else None,
        }
        text = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format, *args):
        """Millrace records every request."""


if __name__ == "__main__":
    ThreadingHTTPServer(("", int(os.environ.get("PORT", "8000"))), Handler).serve_forever()
