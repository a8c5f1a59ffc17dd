"""Which rungs this host gives, found out by trying each: a process raises its walls and runs into them."""

from __future__ import annotations

import errno
import json
import os
import sys
from typing import Callable, NoReturn

from . import kernel, landlock, walls
from .plan import Plan

_RUNGS = ("process", "landlock", "userns", "uid")
_PTRACE = {"x86_64": 101, "aarch64": 117}
#: For less than all of a sentence on one line.
_MAX_BYTES = 1000


def main() -> None:
    """Reads from stdin: a folder of its own, the data directory, the harness, a user of the range that projects have.

    Says why each rung fails, or null.
    """
    asked = json.loads(sys.stdin.buffer.readline())
    folder: str = asked["folder"]
    with open(os.path.join(folder, "hidden"), "w", encoding="ascii"):
        pass
    os.mkdir(os.path.join(folder, "own"), 0o700)
    print(json.dumps({rung: _why_not(rung, folder, asked) for rung in _RUNGS}))


def _why_not(rung: str, folder: str, asked: dict[str, str]) -> str | None:
    own = os.path.join(folder, "own")
    fields = {"rung": rung, "network": "false", "home": "", "program": sys.executable, "order": ""}
    places = {"bundle": own, "storage": own, "scratch": own, "harness": asked["harness"]}
    plan = Plan({**fields, **places, "data_dir": asked["data_dir"], "user": asked["user"]}.items())
    known = landlock.version()
    # Without scopes an app could signal the service; a view of its own keeps it from that as well.
    if rung == "landlock" and 0 < known < landlock.SCOPES_SINCE:
        return "Landlock has version %d here, and %d is needed" % (known, landlock.SCOPES_SINCE)
    if plan.user is not None:
        why = _why_no_users(plan.user, own)
        if why is not None:
            return why
    return _told_by_child(lambda: walls.fork(plan), lambda: _run_into(plan, os.path.join(folder, "hidden")))


def _why_no_users(user: int, folder: str) -> str | None:
    """Why this process cannot give a folder to another user; null if it has just done so."""
    if os.geteuid() != 0:
        return "the service does not run as root"
    try:
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
    if plan.rung == "process":
        return ""
    if plan.user is not None and not _is_only(plan.user, plan.storage):
        return "a process that became another user is not that user alone"
    try:
        os.close(os.open(hidden, os.O_RDONLY))
    except (PermissionError, FileNotFoundError):
        return ""
    return "a file that should be out of reach can be read"
