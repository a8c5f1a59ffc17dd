"""Raises the walls of a level around this process, for good."""

from __future__ import annotations

import os

from .plan import Plan

# Each function imports what it needs: each start of an app waits for imports, and each agent keeps their memory.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import seccomp
    from .connects import Connects
    from .server_port import AppLog

#: Memory and semaphores that processes share by name. Without it most programs of several processes do not run; where
#: it is the host's, an app can use names that it knows.
_SHARED_MEMORY = "/dev/shm"
#: The app's own terminals.
_TERMINALS = "/dev/pts"
#: CUDA writes the names of its threads there.
_PROCESSES = "/proc"

#: The walls of the highest level; lower ones have fewer.
EVERY = frozenset({"namespaces", "landlock", "privileges", "seccomp"})


def fork(plan: Plan) -> int:
    """Like `os.fork`, but walls can be raised around the child."""
    if not plan.has_namespaces:
        return os.fork()
    from . import namespaces

    return namespaces.fork_apart(plan.user)


def unix_sockets(plan: Plan) -> str:
    """What protects the unix sockets of others: the `kernel`, the `keeper`, or a filter that allows `none`.

    The kernel can if paths lead only to the app's own files, or the app may use all, and if Landlock has scopes for
    abstract names. Landlock also refuses TCP then, which the keeper relies on.
    """
    from . import landlock

    has_scopes = plan.level != "process" and landlock.version() >= landlock.SCOPES_SINCE
    if has_scopes and (plan.has_namespaces or plan.unix_sockets):
        return "kernel"
    if plan.has_notifier:
        return "keeper"
    return "kernel" if plan.unix_sockets and not plan.has_namespaces else "none"


def answers(plan: Plan, listener: int, service: int, log: AppLog | None = None) -> Connects:
    """Answers the app's system calls in the keeper. `log` gets messages for the author of a server."""
    from .connects import Connects
    from .judge import Judge
    from .listeners import Listeners
    from .notifier import Notifier
    from .unix_sockets import UnixSockets

    notifier = Notifier(listener)
    unix = UnixSockets(notifier, plan) if unix_sockets(plan) == "keeper" else None
    return Connects(notifier, Judge(plan, Listeners(service), log), unix)


def raise_around(plan: Plan, raised: frozenset[str] = EVERY) -> int | None:
    """Raises walls around this process and all it starts. Raises OSError if the host cannot.

    Returns the descriptor of the kernel's notifications about system calls, if there are any: it is for the agent.
    `raised` has fewer than all walls only to find out which of them is in the way.
    """
    if plan.level == "none":
        return None
    from . import kernel, landlock, namespaces, places, seccomp

    is_apart = plan.has_namespaces and "namespaces" in raised
    kernel.limit_resources()
    asks_names = False
    seen = None if plan.level == "process" else places.Places(plan)
    if seen is not None and is_apart:
        namespaces.build(seen)
    # The app may write to /proc of its own processes; only root could write to the kernel's settings there.
    has_proc = is_apart and (os.getuid() if plan.user is None else plan.user) != 0
    # Landlock's first version forbids moving files between folders. An app with its own view that is not root sees
    # nothing that Landlock would have to protect.
    is_guarded = seen is not None and not (has_proc and landlock.version() == 1)
    if seen is not None and is_guarded and "landlock" in raised:
        own = (*seen.write, seen.scratch)
        asks_names = plan.has_notifier and not has_proc and seen.has_nvidia
        landlock.install(
            read=(*seen.read, *places.KERNEL_FOLDERS, _PROCESSES),
            write=(*own, seen.bundle, _SHARED_MEMORY) if is_apart else own,
            change=(_PROCESSES,) if has_proc else (),
            by_name=() if is_apart else (_SHARED_MEMORY,),
            devices=(*seen.devices, _TERMINALS) if is_apart else seen.devices,
            no_tcp=plan.is_judged,
        )
    if "privileges" in raised:
        kernel.drop_privileges(plan.user)
    return seccomp.install(_rules(plan, asks_names)) if "seccomp" in raised else None


def _rules(plan: Plan, asks_names: bool) -> seccomp.Rules:
    from . import seccomp

    keeper = unix_sockets(plan)
    unix = "asked" if plan.has_namespaces else "streams"
    if keeper == "none":
        unix = "pairs"
    elif keeper == "kernel" or (plan.unix_sockets and not plan.has_namespaces):
        unix = "all"
    return seccomp.Rules(
        network=plan.network, is_judged=plan.is_judged, unix=unix, asks_unix=keeper == "keeper", asks_names=asks_names
    )
