"""Raises the walls of a rung around this process. There is no way back."""

from __future__ import annotations

import os

from . import landlock, namespaces, places, privileges, seccomp
from .plan import Plan

#: What the memory that processes share by name is written to, where the app has its own.
_SHARED_MEMORY = "/dev/shm"


def needs_namespaces(plan: Plan) -> bool:
    """Whether the process must be the first of new namespaces."""
    return plan.rung in ("userns", "uid")


def fork(plan: Plan) -> int:
    """As `os.fork`; the child is what the walls can be raised around."""
    return namespaces.fork_apart(plan.user) if needs_namespaces(plan) else os.fork()


def has_unix_sockets(plan: Plan) -> bool:
    """A view of its own holds no socket of others by path; those without a path need the kernel's help."""
    return needs_namespaces(plan) and landlock.version() >= landlock.SCOPES_SINCE


def raise_around(plan: Plan) -> int | None:
    """From now on this process and all it starts are behind the walls. Raises where the host cannot.

    Where connections are judged, gives the descriptor on which the kernel asks: it is for the outer keeper.
    """
    is_apart = needs_namespaces(plan)
    privileges.limit()
    if plan.rung != "process":
        seen = places.Places(plan)
        if is_apart:
            namespaces.build(seen)
        own = (seen.storage, seen.scratch)
        landlock.install(
            read=(*seen.read, *places.kernel_tells()),
            write=(*own, _SHARED_MEMORY) if is_apart else own,
            devices=seen.devices,
            no_connects=plan.is_judged,
        )
    privileges.drop(plan.user)
    rules = seccomp.Rules(network=plan.network, is_judged=plan.is_judged, no_unix_sockets=not has_unix_sockets(plan))
    return seccomp.install(rules)
