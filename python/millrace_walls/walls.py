"""Raises the walls of a rung around this process. There is no way back."""

from __future__ import annotations

import os

from . import landlock, namespaces, places, privileges, seccomp
from .plan import Plan

#: Where memory that processes share by name lies, and the semaphores of `multiprocessing`. Where it is the host's, an
#: app finds there what it knows the name of: without it most programs of several processes do not run at all.
_SHARED_MEMORY = "/dev/shm"
#: Terminals of the app's own making.
_TERMINALS = "/dev/pts"


def needs_namespaces(plan: Plan) -> bool:
    """Whether the process must be the first of new namespaces."""
    return plan.rung in ("userns", "uid")


def fork(plan: Plan) -> int:
    """As `os.fork`; the child is what the walls can be raised around."""
    return namespaces.fork_apart(plan.user) if needs_namespaces(plan) else os.fork()


def has_unix_sockets(plan: Plan) -> bool:
    """A view of its own holds no socket of others by path; those without a path need the kernel's help."""
    return landlock.version() >= landlock.SCOPES_SINCE if needs_namespaces(plan) else plan.unix_sockets


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
        own = (*seen.write, seen.scratch)
        landlock.install(
            read=(*seen.read, *places.kernel_tells()),
            write=(*own, seen.bundle, _SHARED_MEMORY) if is_apart else own,
            by_name=() if is_apart else (_SHARED_MEMORY,),
            devices=(*seen.devices, _TERMINALS) if is_apart else seen.devices,
            no_tcp=plan.is_judged,
        )
    privileges.drop(plan.user)
    rules = seccomp.Rules(network=plan.network, is_judged=plan.is_judged, no_unix_sockets=not has_unix_sockets(plan))
    return seccomp.install(rules)
