"""Finds out which levels this host supports: a process raises the walls of each and tries to break out."""

from __future__ import annotations

import errno
import json
import os
import sys
from typing import Any, Callable, NoReturn

from . import kernel, landlock, probe_network, walls
from .plan import Plan

_LEVELS = ("process", "landlock", "userns", "uid")
_PTRACE = {"x86_64": 101, "aarch64": 117}
#: Needs the interpreter's own standard library, and the host's libraries that it is linked to.
_NEEDED = """import ctypes, json, os, socket, subprocess, sys, threading
if os.__file__ != sys.argv[1]:
    sys.exit("it finds its library at %s instead of %s" % (os.__file__, sys.argv[1]))"""
_MAX_BYTES = 1000


def main() -> None:
    """Reads from stdin: a folder, the data directory, the harness, what apps may read, a user for `uid`. Prints why a
    level fails, or null, for each.
    """
    asked = json.loads(sys.stdin.buffer.readline())
    print(json.dumps({level: why_not(level, asked) for level in _LEVELS}))


def why_not(level: str, asked: dict[str, Any]) -> str | None:
    """Why this host does not support a level; None if it does."""
    hidden = os.path.join(asked["folder"], "hidden")
    with open(hidden, "w", encoding="ascii"):
        pass
    plan = plan_in(os.path.join(asked["folder"], level), {**asked, "level": level})
    known = landlock.version()
    # Without scopes an app could signal the service, unless it has its own view of the machine.
    if level == "landlock" and 0 < known < landlock.SCOPES_SINCE:
        return "Landlock has version %d here, and %d is needed" % (known, landlock.SCOPES_SINCE)
    if plan.user is not None and os.geteuid() != 0:
        return "the service does not run as root"
    try:
        give_folders(plan)
    except OSError as error:
        # In a container's user namespace most numbers are not mapped.
        return "root cannot give a folder to user %d here: %s" % (plan.user or 0, error.strerror)
    return _told_by_child(lambda: walls.fork(plan), lambda: _run_into(plan, hidden))


def plan_in(folder: str, asked: dict[str, Any], *more: tuple[str, str]) -> Plan:
    """A plan for Python itself, with new folders for what an app writes."""
    fields = {"network": "false", "program": sys.executable}
    asked_fields = {name: asked[name] for name in ("level", "user", "harness", "data_dir")}
    places = {name: os.path.join(folder, name) for name in ("bundle", "storage", "scratch")}
    for place in places.values():
        os.makedirs(place, 0o700)
    reads = (("read", each) for each in asked["reads"])
    return Plan([*{**fields, **asked_fields, **places}.items(), *reads, *more])


def give_folders(plan: Plan) -> None:
    """Gives the folders of such a plan to its user, if it has one."""
    if plan.user is not None:
        for folder in (plan.bundle, plan.storage or "", plan.scratch):
            os.chown(folder, plan.user, plan.user)


def _is_only(user: int, folder: str) -> bool:
    """Whether this process belongs to that user alone, for good, and can write to the user's folder."""
    ids = {*os.getresuid(), *os.getresgid(), *os.getgroups()}
    try:
        os.setuid(0)
    except OSError:
        os.mkdir(os.path.join(folder, "made"))
        return ids == {user}
    return False


def _told_by_child(birth: Callable[[], int], attempt: Callable[[], str]) -> str | None:
    told, tell = os.pipe()
    try:
        child = birth()
    except OSError as error:
        return "no new namespaces: %s" % error.strerror
    if child == 0:
        _tell(tell, attempt)
    os.close(tell)
    with open(told, "rb") as source:
        answer = source.read(_MAX_BYTES).decode()
    _, status = os.waitpid(child, 0)
    return answer or (None if status == 0 else "the process that tried it ended with status %d" % status)


def _tell(tell: int, attempt: Callable[[], str]) -> NoReturn:
    code = 1
    try:
        why = attempt()
        code = 0
    except Exception as error:  # noqa: BLE001 - any error is the reason
        why = str(error) or type(error).__name__
    os.write(tell, why.encode()[:_MAX_BYTES])
    os._exit(code)


def _run_into(plan: Plan, hidden: str) -> str:
    """Raises the walls, then tries to break out; empty if they hold."""
    walls.raise_around(plan)
    try:
        kernel.syscall(_PTRACE[kernel.MACHINE], 0, 0, 0, 0)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
    else:
        return "the filter of system calls lets one through that it should refuse"
    if plan.user is not None and not _is_only(plan.user, plan.storage or ""):
        return "a process that became another user is not that user alone"
    if plan.level != "process":
        try:
            os.close(os.open(hidden, os.O_RDONLY))
        except (PermissionError, FileNotFoundError):
            pass
        else:
            return "a file that should be out of reach can be read"
    return _start_interpreter(plan.program)


def _start_interpreter(program: str) -> str:
    """Starts the interpreter, which may need files that apps do not see; empty if it runs."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(tell, 2)
            os.execve(program, [program, "-c", _NEEDED, os.__file__], {})
        finally:
            os._exit(127)
    os.close(tell)
    with open(told, "rb") as source:
        complaint = source.read(_MAX_BYTES).decode(errors="replace").strip().split("\n")[-1]
    _, status = os.waitpid(child, 0)
    return "" if status == 0 else "%s does not run behind it: %s" % (program, complaint or "status %d" % status)


#: Strongest first. Without `uid`: only a service knows the users of all projects.
_SEAT_LEVELS = ("userns", "landlock", "process")


def main_in_seat() -> None:
    """Reads what `main` reads. Prints the strongest level or null, why higher ones fail, and why connections are not
    judged.
    """
    asked = json.loads(sys.stdin.buffer.readline())
    reasons: dict[str, str] = {}
    for level in _SEAT_LEVELS:
        why = why_not(level, asked)
        if why is None:
            print(json.dumps({"level": level, "reasons": reasons, "gap": _gap(level, asked)}))
            return
        reasons[level] = why
    print(json.dumps({"level": None, "reasons": reasons, "gap": "the app lives behind no walls"}))


def _gap(level: str, asked: dict[str, str]) -> str | None:
    folder = os.path.join(asked["folder"], "network")
    os.mkdir(folder, 0o700)
    why = probe_network.outcome({**asked, "folder": folder, "level": level})
    return None if why == "judged" else why
