"""Stands in for a service with two apps behind walls, of which one hides what its processes hold.

Arguments: the harness, a folder, the level. Prints what the other app could reach.
"""

import json
import os
import subprocess
import sys

harness, folder, level = sys.argv[1:]
ALTERED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "altered-host.py")

HIDING = """
import ctypes, os, shutil, signal, socket, subprocess, sys
named, unnamed = socket.socket(), socket.socket()
named.bind(("127.0.0.1", 0))
for server in (named, unnamed):
    server.listen()
# Enough that the keeper leaves out those that have ended.
for _ in range(1200):
    with socket.socket() as gone:
        gone.listen()
way = sys.argv[1]
if way == "dumpable":
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
elif way == "unreadable":
    program = os.path.join(os.environ["HOME"], "program")
    shutil.copy("/bin/cat", program)
    os.chmod(program, 0o111)
    kept = subprocess.Popen([program], stdin=subprocess.PIPE)
print(named.getsockname()[1], unnamed.getsockname()[1], flush=True)
signal.pause()
"""
SEEKING = """
import errno, json, socket, sys
def reach(port):
    with socket.socket() as client:
        return errno.errorcode.get(client.connect_ex(("127.0.0.1", port)), "connected")
own = socket.socket()
own.listen()
print(json.dumps([reach(port) for port in (*map(int, sys.argv[1:]), own.getsockname()[1])]))
"""


def app(name: str, code: str, *words: str) -> "subprocess.Popen[str]":
    own = os.path.join(folder, name)
    os.makedirs(own)
    changes = {"level": level, "network": "true", "management_port": "1"}
    command = [sys.executable, ALTERED, harness, own, json.dumps(changes), code, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


#: A program of the host: neither the service nor an app.
OTHER = """
import signal, socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
signal.pause()
"""


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline()


said: "dict[str, object]" = {}
for way in ("dumpable", "unreadable"):
    hiding = app("hiding-" + way, HIDING, way)
    other = subprocess.Popen([sys.executable, "-c", OTHER], stdout=subprocess.PIPE, text=True)
    ports = [*first_line(hiding).split(), first_line(other).strip()]
    said[way] = json.loads(first_line(app("seeking-" + way, SEEKING, *ports)))
    for each in (hiding, other):
        each.kill()
print(json.dumps(said))
