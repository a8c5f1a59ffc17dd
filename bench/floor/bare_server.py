"""The floor of a deploy: an app's main.py imported and served by Python's own HTTP server, nothing else.

`python3 bare_server.py APP_FOLDER` prints one line, {"url": where calls are POSTed}, when it is ready.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

sys.path.insert(0, sys.argv[1])

import main


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        arguments = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"result": main.run(**arguments)}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


def end_with_parent():
    sys.stdin.buffer.read()
    os._exit(0)


threading.Thread(target=end_with_parent, daemon=True).start()
server = HTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({"url": "http://127.0.0.1:%d" % server.server_port}), flush=True)
server.serve_forever()
