"""A server of an app's own that serves pages, and answers with any headers that a test asks for."""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

PAGE = "<!doctype html><title>{name}</title><h1>page of {name}</h1><a href='/next'>next</a>"
#: Answers every page in its scope with one of its own.
WORKER = """
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(clients.claim()));
self.addEventListener("fetch", (event) => {
  if (event.request.mode === "navigate")
    event.respondWith(new Response("<title>replaced</title>", { headers: { "content-type": "text/html" } }));
});
"""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/worker.js" or url.query == "worker":
            self.answer(WORKER, "text/javascript", [("Service-Worker-Allowed", "/")])
        elif url.path == "/headers":
            self.answer("", "text/plain", parse_qsl(url.query))
        elif url.path == "/cookie":
            self.answer(self.headers.get("Cookie", ""), "text/plain", [])
        elif url.path == "/prefix":
            self.answer(self.headers.get("X-Forwarded-Prefix", "none"), "text/plain", [])
        else:
            # As it came: Python's own server joins slashes in `path`.
            name = "%s %s" % (os.environ["APP_NAME"], self.requestline.split()[1])
            self.answer(PAGE.format(name=name), "text/html", [])

    def answer(self, text, kind, headers):
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):  # The name that the standard library gave it.
        pass


if __name__ == "__main__":
    port = int(sys.argv[sys.argv.index("--port") + 1])
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
