"""Raises the walls of a rung around this process. There is no way back."""

from __future__ import annotations

from . import landlock, namespaces, places, privileges, seccomp
from .plan import Plan

#: Where memory that processes share by name lies, and the semaphores of `multiprocessing`. Where it is the host's, an
#: app finds there what it knows the name of: without it most programs of several processes do not run at all.
_SHARED_MEMORY = "/dev/shm"
#: Terminals of the app's own making.
_TERMINALS = "/dev/pts"


def needs_namespaces(plan: Plan) -> bool:
    """Whether the process must be the first of new namespaces."""
    return plan.rung == "userns"


def raise_around(plan: Plan) -> None:
    """From now on this process and all it starts are behind the walls. Raises where the host cannot."""
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
        )
    privileges.drop()
    # A view of its own holds no socket of others by path; those without a path need the kernel's help.
    is_free = landlock.version() >= landlock.SCOPES_SINCE if is_apart else plan.unix_sockets
    seccomp.install(no_internet=not plan.network, no_unix_sockets=not is_free)
