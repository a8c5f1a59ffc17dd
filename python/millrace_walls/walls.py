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


def raise_around(plan: Plan) -> None:
    """From now on this process and all it starts are behind the walls. Raises where the host cannot."""
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
        )
    privileges.drop(plan.user)
    # A view of its own holds no socket of others by path; those without a path need the kernel's help.
    is_free = is_apart and landlock.version() >= landlock.SCOPES_SINCE
    seccomp.install(no_internet=not plan.network, no_unix_sockets=not is_free)
