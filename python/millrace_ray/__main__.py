"""The entry point of the supervisor: `python3 -m millrace_ray ORDER`. The order holds no secret: Ray shows it to
everyone who looks at its jobs.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import importlib
import json
import os
import re
import secrets
import sys
import threading
from typing import Any

from millrace_agent.channel import trust
from millrace_agent.order import read_address
from millrace_worker import linux

from .supervisor import Supervisor

#: A library of Ray, in the memory of each of its processes; the path before it is that of their Python.
_LIBRARY = re.compile(r"(/.*)/lib(?:64)?/python3\.\d+/(?:site|dist)-packages/ray/_raylet\.so$", re.MULTILINE)
#: The shell, and its parents.
_LEVELS = 4
_LAST_SECONDS = 2.0


def _use_python_of_ray(arguments: list[str]) -> None:
    """Goes on with the Python of the Ray process that started the job, if that is another than this one.

    Before Ray is connected to: it then prepares its other nodes, and one on this machine unpacks this folder anew.
    """
    prefix = _prefix_above()
    if prefix is None or os.path.realpath(prefix) == os.path.realpath(sys.prefix):
        return
    python = os.path.join(prefix, "bin", "python3")
    if os.access(python, os.X_OK):
        os.execv(python, [python, *arguments])


def _prefix_above() -> str | None:
    pid = os.getppid()
    for _ in range(_LEVELS):
        try:
            with open("/proc/%d/maps" % pid, encoding="utf-8", errors="replace") as maps:
                found = _LIBRARY.search(maps.read())
            if found:
                return found.group(1)
        except OSError:
            break  # Of another user, or gone.
        pid = linux.parent_of(pid)
    return None


def main() -> None:
    """Reads the order, connects to Ray and to the service, and stays."""
    _use_python_of_ray(["-m", "millrace_ray", *sys.argv[1:]])
    order: dict[str, Any] = json.loads(base64.b64decode(sys.argv[1]))
    # By this line a reader of the job's log knows that it is this job that shows the token; only the service gets the
    # token itself.
    token = secrets.token_hex(16)
    print("millrace supervisor " + hashlib.sha256(token.encode()).hexdigest(), flush=True)
    asyncio.run(_supervise(order, token))


async def _supervise(order: dict[str, Any], token: str) -> None:
    ray: Any = importlib.import_module("ray")
    namespace: str = order["namespace"]
    ray.init(address="auto", namespace=namespace, log_to_driver=False)
    await Supervisor(ray, namespace).run(
        trust(order["authority"]),
        [read_address(text) for text in order["addresses"]],
        "millrace 1 ray %s %s" % (order["id"], token),
        order["graceMs"] / 1000,
    )
    # Ends this process, even if a part of Ray still waits for something.
    closing = threading.Thread(target=ray.shutdown, daemon=True)
    closing.start()
    closing.join(_LAST_SECONDS)
    os._exit(0)


main()
