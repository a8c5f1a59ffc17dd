"""Which levels this host gives, found out by trying each: a process raises its walls and runs into them."""

from __future__ import annotations

import errno
import json
import os
import sys
from typing import Any, Callable, NoReturn

from . import kernel, landlock, probe_network, walls
from .plan import Plan

_LEVELS = ("process", "landlock", "userns", "uid")
_OWN = ("bundle", "storage", "scratch")
_PTRACE = {"x86_64": 101, "aarch64": 117}
#: What every app needs of its interpreter: its own standard library, and libraries of the host that it is linked to.
_NEEDED = """import ctypes, json, os, socket, subprocess, sys, threading
if os.__file__ != sys.argv[1]:
    sys.exit("it finds its library at %s instead of %s" % (os.__file__, sys.argv[1]))"""
#: For less than all of a sentence on one line.
_MAX_BYTES = 1000


def main() -> None:
    """Reads from stdin: a folder of its own, the data directory, the harness, what apps may read, a user for `uid`.

    Says why each level fails, or null.
    """
    asked = json.loads(sys.stdin.buffer.readline())
    print(json.dumps({level: why_not(level, asked) for level in _LEVELS}))


def why_not(level: str, asked: dict[str, Any]) -> str | None:
    """Why this host does not give a level; None where it does."""
    folder: str = asked["folder"]
    with open(os.path.join(folder, "hidden"), "w", encoding="ascii"):
        pass
    for name in _OWN:
        os.makedirs(os.path.join(folder, level, name), 0o700)
    fields = {"level": level, "network": "false", "program": sys.executable, "user": asked["user"]}
    places = {name: os.path.join(folder, level, name) for name in _OWN}
    host = {"harness": asked["harness"], "data_dir": asked["data_dir"]}
    plan = Plan([*{**fields, **places, **host}.items(), *(("read", each) for each in asked["reads"])])
    known = landlock.version()
    # Without scopes an app could signal the service; a view of its own keeps it from that as well.
    if level == "landlock" and 0 < known < landlock.SCOPES_SINCE:
        return "Landlock has version %d here, and %d is needed" % (known, landlock.SCOPES_SINCE)
    if plan.user is not None:
        why = _why_no_users(plan.user, [places[name] for name in _OWN])
        if why is not None:
            return why
    return _told_by_child(lambda: walls.fork(plan), lambda: _run_into(plan, os.path.join(folder, "hidden")))


def _why_no_users(user: int, folders: list[str]) -> str | None:
    """Why this process cannot give folders to another user; null if it has just done so."""
    if os.geteuid() != 0:
        return "the service does not run as root"
    try:
        for folder in folders:
            os.chown(folder, user, user)
    except OSError as error:
        # Neither can be told from the other: in a container's namespace most numbers name nobody.
        return "root cannot give a folder to user %d here: %s" % (user, error.strerror)
    return None


def _is_only(user: int, folder: str) -> bool:
    """Whether this process is that user's, stays it, and writes what is the user's."""
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
    except Exception as error:  # noqa: BLE001 - whatever it is, it is why
        why = str(error) or type(error).__name__
    os.write(tell, why.encode()[:_MAX_BYTES])
    os._exit(code)


def _run_into(plan: Plan, hidden: str) -> str:
    """Raises the walls, then tries what they are for; empty if they hold."""
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
    """Starts what apps run on, which may need files that they cannot see; empty if it runs."""
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


#: From the strongest. To give each project a user takes a service that knows all of them.
_SEAT_LEVELS = ("userns", "landlock", "process")


def main_in_seat() -> None:
    """Reads what `probe` reads. Says the level or null, why none above it holds, and why connections are not judged."""
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
