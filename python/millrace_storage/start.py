"""One operation: reads an order from stdin, says in one line what came of it, then gives the bytes it was asked for."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterable
from typing import Any

from . import archive, changes, looks
from .inside import Refused


def main() -> None:
    """The order comes from the service; its answer does not trust this process, nor what it finds."""
    order = json.loads(sys.stdin.buffer.readline())
    try:
        answer, more = _obey(order)
    except Refused as refusal:
        answer, more = {"refused": str(refusal)}, ()
    except OSError as error:
        answer, more = {"error": errno.errorcode.get(error.errno or 0, "EIO")}, ()
    _say(answer)
    for each in more:
        if isinstance(each, bytes):
            sys.stdout.buffer.write(each)
        else:
            _say(each)
    sys.stdout.buffer.flush()
    if order["operation"] in ("put", "take"):
        # Who asked need not wait for it.
        os.close(1)
        changes.sweep(order["root"], is_removing=order["operation"] == "take")


def _obey(order: dict[str, Any]) -> tuple[dict[str, Any], Iterable[bytes | dict[str, Any]]]:
    root: str = order["root"]
    operation: str = order["operation"]
    if operation == "bytes":
        return {"done": looks.bytes_below(root)}, ()
    if operation == "archive":
        return {"done": None}, archive.told(root)
    names: list[str] = order["path"]
    if operation == "list":
        return {"done": looks.entries(root, names, order["most"])}, ()
    if operation == "facts":
        return {"done": looks.facts(root, names)}, ()
    if operation == "read":
        return {"done": None}, looks.read(root, names, order["first"], order["last"], order["known"])
    if operation == "size":
        return {"done": looks.size_of(root, names)}, ()
    if operation == "put":
        return {"done": changes.put(root, names, order["source"])}, ()
    if operation == "remove":
        return {"done": changes.remove_file(root, names)}, ()
    if operation == "take":
        changes.take_folder(root, names)
        return {"done": None}, ()
    raise ValueError("no such operation: " + operation)


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()
