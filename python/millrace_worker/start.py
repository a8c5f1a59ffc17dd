"""Starts the first process of an app as its order says."""

from __future__ import annotations

import importlib
import json
import os
import sys

from . import frames, keeper, linux, logs, serve, template
from .app import Order


def main() -> None:
    """Reads the order from stdin, one line of JSON: it must not show in `ps` or in the environment."""
    owner = os.getppid()
    order = Order(json.loads(sys.stdin.buffer.readline()))
    linux.lead_nowhere(0)
    if order.address == frames.DOOR:
        frames.find_door()
    linux.close_inherited(frames.DOOR_DESCRIPTOR + (order.address == frames.DOOR))
    if order.gpu_files:
        # For forks, and now: from here on the app's own modules are found instead.
        importlib.import_module("millrace_walls.gpus")
        importlib.import_module("millrace_walls.landlock")
    os.chdir(order.bundle_dir)
    # The harness's folder stays: `millrace` is there, before an installed one and after the bundle's own.
    sys.path.insert(0, order.bundle_dir)
    logs.set_bundle(order.bundle_dir)
    sys.argv = ["main.py"]
    ward = template.serve if order.template_ticket else serve.start
    if order.is_kept:
        keeper.live(lambda: ward(order))
    keeper.keep(lambda: ward(order), owner)
