"""Raises the walls of `userns` as on a kernel with an older Landlock; prints what the app could still do."""

import errno
import os
import socket
import sys
from typing import Callable

harness, folder, version = sys.argv[1:]
sys.path.insert(0, harness)

from millrace_walls import landlock, namespaces, walls  # noqa: E402
from millrace_walls.plan import Plan  # noqa: E402

landlock.version = lambda: int(version)


def tried(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "done"


places = {name: os.path.join(folder, name) for name in ("bundle", "storage", "scratch")}
for place in places.values():
    os.makedirs(place)
secret = os.path.join(folder, "secret")
with open(secret, "w") as file:
    file.write("x")
own = os.path.join(places["storage"], "own")
more = {"program": sys.executable, "order": "", "home": "", "harness": harness, "data_dir": folder}
plan = Plan({**places, **more, "rung": "userns", "network": "true"}.items())
child = namespaces.fork_apart()
if child == 0:
    walls.raise_around(plan)
    attempts = (
        lambda: socket.socket(socket.AF_UNIX),
        lambda: socket.socket(socket.AF_INET),
        lambda: open(own, "w").close(),
        lambda: open(secret).close(),
        lambda: open(os.path.join(places["bundle"], "new"), "w").close(),
    )
    print(*map(tried, attempts), flush=True)
    os._exit(0)
os.waitpid(child, 0)
