"""Starts an app below the agent as a service does on its own machine: the harness, or the app's own server."""

from __future__ import annotations

import json
import os

from .bring import Files
from .child import PYTHON, PYTHON_DIR, Child, environment_of, name_python
from .loop import Loop
from .order import Server, Sitting
from .walled import Walled, plan_fields

_HARNESS = "import sys; sys.path[:1] = [%s]; from millrace_worker.start import main; main()" % json.dumps(PYTHON_DIR)
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from millrace_agent.ward import run; run()"
#: What the harness is told in place of an address: it asks the agent for its connections.
_DOOR = "door"


def start_app(loop: Loop, sit: Sitting, files: Files, home: str) -> tuple[Child, dict[str, str]]:
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
    order = str(os.getpid())
    command = [files.python, "-c", _HARNESS]
    if sit.server is not None:
        command = _server_command(sit.server, files, variables)
    else:
        # In a namespace of its own the first process is a keeper; elsewhere behind walls the agent is.
        is_kept = is_walled and around is not None and around.rung != "userns"
        own = {"address": _DOOR if is_walled else home, "bundle_dir": files.bundle, "kept": is_kept}
        order = json.dumps({**sit.order, **own})
    if around is None or around.rung is None:
        arguments = command if sit.server is None else program_arguments(files.bundle, command)
        return Child(arguments, order.encode() + b"\n", variables), {"storage": storage}
    written = {"storage": storage, "scratch": scratch}
    folders = {"data_dir": files.folder, "bundle": files.bundle, **written}
    if files.environment is not None:
        folders["environment"] = files.environment
    fields = plan_fields(around, command, variables, folders, reads)
    if sit.server is None:
        fields += [("home", home), ("order", order)]
    else:
        fields += [("port", str(sit.server.port)), ("authored", str(sit.server.authored))]
    if sit.limits is not None and sit.limits.memory is not None:
        fields.append(("memory_bytes", str(sit.limits.memory)))
    return Walled(loop, fields, home), written


def program_arguments(folder: str, program: list[str]) -> list[str]:
    """How a program is run in a folder, without walls: below a keeper, which gets our pid on stdin."""
    return [PYTHON, "-I", "-S", "-c", _PROGRAM, PYTHON_DIR, folder, *program]


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


def _server_command(server: Server, files: Files, variables: dict[str, str]) -> list[str]:
    variables["PORT"] = str(server.port)
    program, *rest = server.command
    # The place may have it under another name, and the app's own version matters.
    return [files.python if program in ("python", "python3") else program, *rest]
