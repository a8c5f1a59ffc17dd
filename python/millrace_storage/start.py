"""Works on one project's storage, as the project's user and behind the walls of its apps.

Each operation is a fork of this process, which itself opens nothing in the storage: if hostile files crash one
operation, the others continue.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Iterable
from typing import Any, BinaryIO, Callable, NoReturn

from millrace_worker import frames, linux

from . import changes, looks
from .looks import Refused


def main() -> None:
    """Reads a ticket and the storage's folder from stdin, then takes one order a line until the service closes."""
    asked = json.loads(sys.stdin.buffer.readline())
    frames.find_door()
    linux.close_inherited(frames.DOOR_DESCRIPTOR + 1)
    # The kernel reaps the forks. They end with this process, the first of its namespace.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    service = frames.connect(frames.DOOR, "template", asked["ticket"])
    with service.makefile("rb") as orders:
        for line in orders:
            if os.fork() == 0:
                os.close(service.fileno())
                _work(asked["root"], json.loads(line))


def _work(root: str, order: dict[str, Any]) -> NoReturn:
    """Carries out one order: sends one line with the outcome, then the requested bytes."""
    code = 1
    try:
        connection, *lent = frames.ask("wire", order["ticket"])
        with open(connection, "wb") as answers:
            _answer(root, order, lent, answers)
        code = 0
    except BrokenPipeError:
        pass  # The service has closed the connection.
    except Exception:  # noqa: BLE001 - the last frame of the process: say it, then end
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _answer(root: str, order: dict[str, Any], lent: list[int], answers: BinaryIO) -> None:
    """Keeps the connection open to the end: closing it tells the service that this process has ended."""
    more: Iterable[bytes | dict[str, Any]] = ()
    try:
        answer, more = _obey(root, order, lent)
    except Refused as refusal:
        answer = {"refused": str(refusal)}
    except OSError as error:
        answer = {"error": errno.errorcode.get(error.errno or 0, "EIO")}
    _say(answers, answer)
    for each in more:
        if isinstance(each, bytes):
            answers.write(each)
        else:
            _say(answers, each)
    answers.flush()
    if order["operation"] in ("put", "take"):
        # The service has its answer and does not wait for this.
        changes.sweep(root, is_removing=order["operation"] == "take")


def _obey(root: str, order: dict[str, Any], lent: list[int]) -> tuple[dict[str, Any], Iterable[bytes | dict[str, Any]]]:
    operation: str = order["operation"]
    names: list[str] = order.get("path", [])
    if operation == "archive":
        return {"done": None}, looks.told(root)
    if operation == "read":
        return {"done": None}, looks.read(root, names, order["first"], order["last"], order["known"])
    if operation == "put" and not lent:
        raise FileNotFoundError(errno.ENOENT, "the file is not there any more")
    operations: dict[str, Callable[[], object]] = {
        "bytes": lambda: looks.bytes_below(root),
        "list": lambda: looks.entries(root, names, order["most"]),
        "facts": lambda: looks.facts(root, names),
        "put": lambda: changes.put(root, names, lent[0]),
        "remove": lambda: changes.remove_file(root, names),
        "take": lambda: changes.take_folder(root, names),
    }
    return {"done": operations[operation]()}, ()


def _say(answers: BinaryIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()
