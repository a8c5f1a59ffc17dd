/** Takes 600 MB at most, which no machine misses, and then waits for its end. */
export const HUNGRY = `
import os
import time

def eat():
    held = [b"x" * (4 << 20) for _ in range(150)]
    time.sleep(600)
    return len(held)

def eat_below():
    if os.fork() == 0:
        eat()
    time.sleep(600)

def live():
    return True
`;

/** What such an app has in its `app.toml`. */
export const SMALL = "[hardware]\nmemory = 0.2\n";

/** More of it: a process without its first thread: the kernel tells nothing of its memory, and calls it a zombie. */
export const HEADLESS = `
import ctypes, threading

def eat_headless():
    if os.fork() == 0:
        threading.Thread(target=eat).start()
        ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
    time.sleep(600)
`;

/** Writes to a folder that is limited, and then waits for its end. */
export const FILLER = `
import os
import tempfile
import time

def fill(folder):
    """60 MB in files of one."""
    where = tempfile.gettempdir() if folder == "scratch" else os.environ["PERSISTENT_STORAGE"]
    for number in range(60):
        with open(os.path.join(where, "filler-%d" % number), "wb") as file:
            file.write(b"x" * 1_000_000)
    time.sleep(600)

def live():
    return True
`;

/** The same as a server of its own. */
export const HUNGRY_SERVER = `${HUNGRY}
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        if self.path.endswith("/eat"):
            eat()
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`;
