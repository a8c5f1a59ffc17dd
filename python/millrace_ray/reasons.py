"""What Ray does and does not do, in words for people."""

from __future__ import annotations

from typing import Any

_MAX_CHARS = 500
_GB = 1e9
#: By what Ray calls them, in the order in which they are told.
_NAMES = {"CPU": "CPU", "GPU": "GPU", "memory": "GB of memory"}


def why_waiting(needs: dict[str, float], nodes: list[dict[str, float]], free: dict[str, float]) -> str:
    """Why an actor has not started yet, by what each living node has in all, and what is free in the cluster."""
    if not nodes:
        return "Ray has no living node"
    wanted = _describe(needs)
    if not any(_fits(needs, node) for node in nodes):
        most = {name: max(node.get(name, 0.0) for node in nodes) for name in needs}
        return "no node of the Ray cluster has %s (the most that one has: %s)" % (wanted, _describe(most))
    if not _fits(needs, free):
        return "the Ray cluster has no room: %s asked for, %s free" % (
            wanted,
            _describe({name: free.get(name, 0.0) for name in needs}),
        )
    return "Ray has not started its actor yet"


def why_ended(error: BaseException) -> dict[str, Any]:
    """What has become of an actor that ended without its agent's word."""
    kind = type(error).__name__
    text = " ".join(str(error).split())
    is_out_of_memory = kind == "OutOfMemoryError" or "low on memory" in text
    if "RuntimeEnv" in kind:
        why = "Ray could not bring its files to the node: " + text
    elif "node has died" in text or "node was terminated" in text or "node died" in text.lower():
        why = "its Ray node died"
    elif kind in ("ActorDiedError", "RayActorError", "ActorUnavailableError"):
        why = "its Ray actor died" + (": memory of the node ran out" if is_out_of_memory else "")
    else:
        why = "its Ray actor failed: %s: %s" % (kind, text)
    return {"code": None, "why": why[:_MAX_CHARS], "is_out_of_memory": is_out_of_memory}


def _fits(needs: dict[str, float], has: dict[str, float]) -> bool:
    return all(has.get(name, 0.0) >= amount for name, amount in needs.items())


def _describe(amounts: dict[str, float]) -> str:
    ordered = sorted(amounts, key=lambda name: (name not in _NAMES, list(_NAMES).index(name) if name in _NAMES else 0))
    words = [
        "%s %s" % (_round(amounts[name] / _GB if name == "memory" else amounts[name]), _NAMES.get(name, name))
        for name in ordered
    ]
    return ", ".join(words) or "nothing"


def _round(amount: float) -> str:
    return "%g" % round(amount, 2)
