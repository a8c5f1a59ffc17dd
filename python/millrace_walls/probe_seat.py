"""What a seat elsewhere can put around its app: the strongest rung of its machine, and what that does not hold."""

from __future__ import annotations

import json
import os
import sys

from . import probe, probe_network

#: From the strongest. To give each project a user takes a service that knows all of them.
_RUNGS = ("userns", "landlock", "process")


def main() -> None:
    """Reads what `probe` reads. Says the rung or null, why none above it holds, and why connections are not judged."""
    asked = json.loads(sys.stdin.buffer.readline())
    reasons: dict[str, str] = {}
    for rung in _RUNGS:
        why = probe.why_not(rung, asked)
        if why is None:
            print(json.dumps({"rung": rung, "reasons": reasons, "gap": _gap(rung, asked)}))
            return
        reasons[rung] = why
    print(json.dumps({"rung": None, "reasons": reasons, "gap": "the app lives behind no walls"}))


def _gap(rung: str, asked: dict[str, str]) -> str | None:
    folder = os.path.join(asked["folder"], "network")
    os.mkdir(folder, 0o700)
    why = probe_network.outcome({**asked, "folder": folder, "rung": rung})
    return None if why == "judged" else why
