"""What an app lives behind in a seat whose machine others use too: the walls that it has on a service's own machine.

An outer keeper raises them. This page finds out which this machine gives, and writes the keeper's plan.
"""

from __future__ import annotations

import errno
import json
import os

from .child import PYTHON, PYTHON_DIR, Child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .order import Walls

_PATH = "import sys; sys.path.insert(0, %s); " % json.dumps(PYTHON_DIR)
_PROBE = _PATH + "from millrace_walls.probe_seat import main; main()"
_KEEP = _PATH + "from millrace_agent.local import main; main()"

_RUNGS = ("process", "landlock", "userns")
#: What a shell finds there are programs.
_PROGRAMS = ("bin", "sbin")
_ANSWER_BYTES = 64 * 1024
_MAX_CHARS = 500
#: The kernel takes no longer argument or variable, with its end.
_MAX_STRING_BYTES = 128 * 1024


class NoWalls(Exception):
    """This machine does not give what is asked for."""


class Around:
    """What stands around the app of this seat."""

    def __init__(self, rung: str | None, network: list[tuple[str, str]], gap: str | None) -> None:
        #: None for nothing.
        self.rung = rung
        #: What the outer keeper is told of the app's network.
        self.network = network
        #: Why connections are not judged; None where they are.
        self.gap = gap

    def told(self) -> dict[str, str | None]:
        """For the service."""
        return {"level": self.rung or "none", "gap": self.gap and self.gap[:_MAX_CHARS]}


class Probing:
    """Tries the walls of this machine while something else is done; there is no app yet."""

    def __init__(self, folder: str) -> None:
        own = os.path.join(folder, "probe")
        os.mkdir(own, 0o700)
        host = {"data_dir": folder, "harness": PYTHON_DIR, "reads": host_reads(folder), "user": "0"}
        asked = json.dumps({"folder": own, **host}).encode() + b"\n"
        self._child = Child([PYTHON, "-I", "-S", "-c", _PROBE], asked, {})

    def found(self, asked: Walls, neighbours: str | None) -> Around:
        """What the app will live behind. Raises NoWalls where that is less than what is asked for."""
        said, complaint = (_read(each) for each in (self._child.stdout, self._child.stderr))
        try:
            offer = json.loads(said)
        except ValueError:
            why = complaint.decode("utf-8", "replace").strip().split("\n")[-1] or "Python gave no answer"
            offer = {"rung": None, "reasons": dict.fromkeys(_RUNGS, why), "gap": why}
        return choose(asked, offer, neighbours)


def choose(asked: Walls, offer: dict[str, Any], neighbours: str | None) -> Around:
    """Of what a machine offers, the strongest. Raises NoWalls where that is less than what is asked for."""
    rung, gap = offer["rung"], offer["gap"]
    least = asked.isolation
    if least != "auto" and (rung is None or _RUNGS.index(rung) < _RUNGS.index(least)):
        raise NoWalls("MILLRACE_ISOLATION=%s, but its machine cannot give that: %s" % (least, offer["reasons"][least]))
    if gap is not None and asked.must_judge:
        raise NoWalls("nothing keeps it from connecting to others on its machine: %s" % gap)
    network = asked.network if gap is None else [pair for pair in asked.network if pair[0] == "network"]
    denied = [("neighbours", neighbours)] if gap is None and neighbours is not None else []
    return Around(rung, network + denied, gap)


def walled_child(
    around: Around,
    command: list[str],
    variables: dict[str, str],
    folders: dict[str, str],
    harness: dict[str, str],
    reads: list[str],
    memory_bytes: int | None,
) -> Child:
    """Starts an outer keeper and the program below it. `harness` is what one that calls home is told; empty for others.

    `folders` has the seat's own as `data_dir`, and what the app sees of it, with `reads`. The app's Python is that of
    the keeper. Raises for what no process can be handed.
    """
    fields = [
        ("rung", around.rung or ""),
        ("program", command[0]),
        ("harness", PYTHON_DIR),
        *folders.items(),
        *harness.items(),
        *([] if memory_bytes is None else [("memory_bytes", str(memory_bytes))]),
        *around.network,
        *(("read", each) for each in (*host_reads(folders["data_dir"]), *reads)),
        *(("argument", each) for each in command[1:]),
        *(("variable", "%s=%s" % pair) for pair in variables.items()),
        ("end", ""),
    ]
    # In a namespace of its own, the first process is a keeper too.
    levels = 2 if around.rung == "userns" and not harness else 1
    return Child([PYTHON, "-I", "-S", "-c", _KEEP], b"".join(_packed(*each) for each in fields), {}, levels)


def host_reads(folder: str, host: Mapping[str, str] = os.environ) -> list[str]:
    """What of the machine's files its variables promise to every program; not its user's home, nor a seat."""
    named = [each for each in host.get("PATH", "").split(os.pathsep) if os.path.basename(each) in _PROGRAMS]
    for name in ("LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        named += host.get(name, "").split(os.pathsep)
    private = [os.path.realpath(each) for each in (host.get("HOME", "/"), folder)]
    real = [os.path.realpath(each) for each in dict.fromkeys(named) if os.path.isabs(each)]
    return [each for each in real if not any(_is_within(path, each) for path in private)]


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _packed(name: str, value: str) -> bytes:
    """As the keeper reads it. A zero byte would be the start of another field, of the app's choosing."""
    field = os.fsencode("%s=%s" % (name, value))
    if b"\0" in field:
        raise ValueError("a zero byte cannot be passed to a process")
    if len(os.fsencode(value)) >= _MAX_STRING_BYTES:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    return field + b"\0"


def _read(descriptor: int) -> bytes:
    with open(descriptor, "rb") as source:
        return source.read(_ANSWER_BYTES)
