"""Raises the walls of a level around this process. There is no way back."""

from __future__ import annotations

import os

from .plan import Plan

# What raises walls is imported by the process that they are raised around, and what answers for it by the agent, while
# that process starts: each start of an app waits for imports, and each agent keeps what it has imported.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import seccomp
    from .connects import Connects
    from .server_port import AppLog

#: Where memory that processes share by name lies, and the semaphores of `multiprocessing`. Where it is the host's, an
#: app finds there what it knows the name of: without it most programs of several processes do not run at all.
_SHARED_MEMORY = "/dev/shm"
#: Terminals of the app's own making.
_TERMINALS = "/dev/pts"
#: What the kernel tells of processes, and what they tell it of themselves: CUDA names its threads there.
_PROCESSES = "/proc"


#: The walls of the highest level; lower ones have fewer.
EVERY = frozenset({"namespaces", "landlock", "privileges", "seccomp"})


def fork(plan: Plan) -> int:
    """As `os.fork`; the child is what the walls can be raised around."""
    if not plan.has_namespaces:
        return os.fork()
    from . import namespaces

    return namespaces.fork_apart(plan.user)


def unix_sockets(plan: Plan) -> str:
    """Who keeps the app from the unix sockets of others: the `kernel`, the `keeper`, or a filter that allows `none`.

    For the kernel to do so, paths must lead to the app's own files (or it may use all, as it has asked for that), and
    names without a path need Landlock's scopes. Landlock also refuses TCP then, which the keeper relies on.
    """
    from . import landlock

    has_scopes = plan.level != "process" and landlock.version() >= landlock.SCOPES_SINCE
    if has_scopes and (plan.has_namespaces or plan.unix_sockets):
        return "kernel"
    if plan.has_notifier:
        return "keeper"
    return "kernel" if plan.unix_sockets and not plan.has_namespaces else "none"


def answers(plan: Plan, listener: int, service: int, log: AppLog | None = None) -> Connects:
    """What the keeper answers the app's system calls with. `log` is for what the author of a server has to know."""
    from .connects import Connects
    from .judge import Judge
    from .listeners import Listeners
    from .notifier import Notifier
    from .unix_sockets import UnixSockets

    notifier = Notifier(listener)
    unix = UnixSockets(notifier, plan) if unix_sockets(plan) == "keeper" else None
    return Connects(notifier, Judge(plan, Listeners(service), log), unix)


def raise_around(plan: Plan, raised: frozenset[str] = EVERY) -> int | None:
    """From now on this process and all it starts are behind the walls. Raises where the host cannot.

    Where the kernel asks about system calls, gives the descriptor on which it does: it is for the agent. Fewer than all
    walls are raised only to find out which of them is in the way of something.
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
    # It may write to what /proc says of its own processes; what it says of the kernel is root's.
    has_proc = is_apart and (os.getuid() if plan.user is None else plan.user) != 0
    # The first version keeps every program from moving files between folders. Where the app has a view of its own and
    # is not root, that holds nothing that Landlock would have to guard.
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
