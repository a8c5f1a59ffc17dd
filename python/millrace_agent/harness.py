"""Starts an app below the agent as a service does on its own machine: the harness, or the app's own server."""

from __future__ import annotations

import json
import os

from .bring import Files
from .child import PYTHON, PYTHON_DIR, Child, environment_of, name_python
from .order import Server, Sitting
from .walled import walled_child

_HARNESS = "import sys; sys.path[:1] = [%s]; from millrace_worker.start import main; main()" % json.dumps(PYTHON_DIR)
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from millrace_agent.server import %s as begin; begin()"
#: What the harness is told in place of an address: it asks the outer keeper for its connections.
_DOOR = "door"


def start_app(sit: Sitting, files: Files, home: str) -> tuple[Child, dict[str, str]]:
    """Starts it, behind walls if there are some. The harness calls home at that socket; a server does not.

    Gives the folders that it writes to, too, by what they are for it.
    """
    around = files.around
    is_walled = around is not None and around.rung is not None
    storage = _storage(sit.storage, files.folder)
    scratch = os.path.join(files.folder, "scratch")
    if is_walled:
        os.mkdir(scratch, 0o700)
    variables = environment_of(sit.variables, storage, files.environment, scratch if is_walled else None)
    reads: list[str] = []
    if files.environment is None:
        reads = [name_python(files.folder)]
        found = variables.get("PATH", os.defpath)
        variables["PATH"] = os.pathsep.join([*reads, os.path.dirname(files.python), found])
    order = ""
    if sit.server is None:
        arguments = [files.python, "-c", _HARNESS]
        order = json.dumps({**sit.order, "address": _DOOR if is_walled else home, "bundle_dir": files.bundle})
    else:
        arguments = _server_arguments(sit.server, files, variables, "become" if is_walled else "main")
        order = "" if is_walled else str(os.getpid())
    if around is None or around.rung is None:
        return Child(arguments, order.encode() + b"\n", variables), {"storage": storage}
    written = {"storage": storage, "scratch": scratch}
    folders = {"data_dir": files.folder, "bundle": files.bundle, **written}
    if files.environment is not None:
        folders["environment"] = files.environment
    harness = {"home": home, "order": order} if order else {}
    memory_bytes = None if sit.limits is None else sit.limits.memory
    return walled_child(around, arguments, variables, folders, harness, reads, memory_bytes), written


def program_arguments(folder: str, program: list[str], begin: str = "main") -> list[str]:
    """How a program is run in a folder: below a keeper, which gets our pid on stdin, or by `become` below another."""
    return [PYTHON, "-I", "-S", "-c", _PROGRAM % begin, PYTHON_DIR, folder, *program]


def _storage(wanted: str, folder: str) -> str:
    """Where the project's storage is in this place; if it has none, a folder that is gone with the seat."""
    shared = os.path.dirname(wanted)
    # A folder of each project, in one that every machine of this place has.
    if shared != "/" and os.path.isdir(shared) and os.access(shared, os.W_OK):
        os.makedirs(wanted, 0o700, exist_ok=True)
    if os.path.isdir(wanted) and os.access(wanted, os.W_OK):
        return wanted
    own = os.path.join(folder, "storage")
    os.makedirs(own, exist_ok=True)
    return own


def _server_arguments(server: Server, files: Files, variables: dict[str, str], begin: str) -> list[str]:
    variables["PORT"] = str(server.port)
    program, *rest = server.command
    # The place may have it under another name, and the app's own version matters.
    program = files.python if program in ("python", "python3") else program
    return program_arguments(files.bundle, [program, *rest], begin)
