"""The supervisor's program: `python3 -m millrace_ray ORDER`. The order has no secret: Ray shows it to all its users."""

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

#: A library in the memory of each Ray process, below the prefix of its Python.
_LIBRARY = re.compile(r"(/.*)/lib(?:64)?/python3\.\d+/(?:site|dist)-packages/ray/_raylet\.so$", re.MULTILINE)
#: The shell, and its parents.
_LEVELS = 4
_LAST_SECONDS = 2.0


def _use_python_of_ray(arguments: list[str]) -> None:
    """Continues with the Python of the Ray process that started the job, if that is another one.

    Call it before connecting: Ray then prepares its other nodes, and one on this machine unpacks this folder anew.
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
            break  # It is another user's, or has ended.
        pid = linux.parent_of(pid)
    return None


def main() -> None:
    """Connects to Ray and to the service, and works until the service lets it go."""
    _use_python_of_ray(["-m", "millrace_ray", *sys.argv[1:]])
    order: dict[str, Any] = json.loads(base64.b64decode(sys.argv[1]))
    # The service finds this line in the job's log, and then knows that a connection with this token is this job's.
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
    # Ends this process even if Ray's shutdown hangs.
    closing = threading.Thread(target=ray.shutdown, daemon=True)
    closing.start()
    closing.join(_LAST_SECONDS)
    os._exit(0)


main()
