"""Where the first process of an app begins: it reads its order, and becomes what that names."""

from __future__ import annotations

import json
import os
import sys

from . import door, keeper, linux, logs, serve, template
from .app import Order


def main() -> None:
    """Reads one line of JSON from stdin (nothing of it may show in `ps` or in the environment)."""
    owner = os.getppid()
    order = Order(json.loads(sys.stdin.buffer.readline()))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    if order.address == door.ADDRESS:
        door.find()
    linux.close_inherited(door.DESCRIPTOR + 1 if door.is_there() else 3)
    os.chdir(order.bundle_dir)
    sys.path[0] = order.bundle_dir
    logs.set_bundle(order.bundle_dir)
    sys.argv = ["main.py"]
    ward = template.serve if order.template_ticket else serve.start
    if order.is_kept:
        keeper.live(lambda: ward(order))
    keeper.keep(lambda: ward(order), owner)
