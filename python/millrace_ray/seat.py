"""The actor of a seat: starts an agent, waits for its end, and then ends itself."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
from contextlib import suppress
from typing import Any

from millrace_agent import start
from millrace_agent.child import ALLOWED, PYTHON_DIR

#: Its argument is the pid of its actor, because an actor that Ray kills cannot end its agent. The order is on stdin.
_AGENT = (
    "import signal, sys; sys.path.insert(0, %s); "
    "from millrace_agent.start import main; from millrace_worker import linux; "
    "linux.die_with_parent(int(sys.argv.pop()), signal.SIGTERM); main()"
) % json.dumps(PYTHON_DIR)
#: How long an actor waits for the order to start its agent.
_UNUSED_SECONDS = 60.0
#: How long an actor outlives its agent, so that a waiting supervisor gets an answer.
_LINGER_SECONDS = 3.0


class Seat:
    """The actor of one agent. It outlives its supervisor, and the next one finds it by its name."""

    def __init__(self) -> None:
        self._starting: asyncio.Future[asyncio.subprocess.Process] | None = None
        self._watching: asyncio.Future[int] | None = None
        self._end = _exit_in(_UNUSED_SECONDS)
        #: The agent removes both, unless it is killed. The app's walls read the first.
        self._neighbours = os.path.join(tempfile.gettempdir(), "millrace-neighbours-" + os.urandom(8).hex())
        self._folder = start.choose()

    async def learn(self, addresses: list[str]) -> None:
        """Takes the cluster's nodes, before the start and whenever they change."""
        if self._watching is None or not self._watching.done():
            _write_whole(self._neighbours, "\n".join(addresses))

    async def start(self, order: dict[str, Any]) -> None:
        """Starts the agent. Idempotent."""
        if self._starting is None:
            self._end.cancel()
            own = {"neighbours": self._neighbours, "folder": self._folder}
            self._starting = asyncio.ensure_future(_start_agent({**order, **own}))
            self._watching = asyncio.ensure_future(self._watch(self._starting))
        await asyncio.shield(self._starting)

    async def wait(self) -> int:
        """Waits for the agent's end; returns its exit code."""
        if self._watching is None:
            raise RuntimeError("it was never started")
        return await asyncio.shield(self._watching)

    async def stop(self) -> None:
        """Asks the agent to end with everything that it has started."""
        if self._starting is not None:
            agent = await asyncio.shield(self._starting)
            if agent.returncode is None:
                agent.terminate()

    async def _watch(self, starting: asyncio.Future[asyncio.subprocess.Process]) -> int:
        try:
            agent = await asyncio.shield(starting)
            return await agent.wait()
        finally:
            # Before the supervisor hears of the end, and kills this actor.
            await asyncio.to_thread(start.remove, self._folder)
            with suppress(FileNotFoundError):  # The agent has removed it.
                os.unlink(self._neighbours)
            self._end = _exit_in(_LINGER_SECONDS)


def _exit_in(seconds: float) -> threading.Timer:
    """Ends this process later, unless the timer is cancelled: a detached actor must end itself."""
    timer = threading.Timer(seconds, os._exit, [0])
    timer.daemon = True
    timer.start()
    return timer


def _write_whole(path: str, text: str) -> None:
    """Replaces a file at once: a reader gets all of the old or of the new text."""
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(text)
    os.replace(path + ".new", path)


async def _start_agent(order: dict[str, Any]) -> asyncio.subprocess.Process:
    agent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", _AGENT, str(os.getpid())),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        # Apps must not get the variables of Ray's processes, above all its token.
        env={name: os.environ[name] for name in ALLOWED if name in os.environ},
        # Ray kills the process group of an actor that has ended, but an agent needs time.
        start_new_session=True,
    )
    if agent.stdin is not None:
        agent.stdin.write(json.dumps(order).encode() + b"\n")
        agent.stdin.close()
    return agent


_MAX_CHARS = 500
_GB = 1e9
#: Ray's resources, in the order in which messages name them.
_NAMES = {"CPU": "CPU", "GPU": "GPU", "memory": "GB of memory"}


#: Ray gives each node with GPUs such a resource. It stands for the model, not for an amount: Ray takes so little of it.
_ACCELERATOR = "accelerator_type:"
_LITTLE = 0.001


def with_accelerator(
    needs: dict[str, float], accelerators: list[str], nodes: list[dict[str, float]]
) -> dict[str, float]:
    """Adds the first model that a living node has to what an actor needs; if none has any, the first."""
    names = [_ACCELERATOR + model for model in accelerators]
    found = [name for name in names if any(node.get(name, 0.0) > 0 for node in nodes)]
    return {**needs, (found or names)[0]: _LITTLE}


def why_waiting(needs: dict[str, float], nodes: list[dict[str, float]], free: dict[str, float]) -> str:
    """Why an actor has not started yet, by the total of each living node and what is free in the cluster."""
    if not nodes:
        return "Ray has no living node"
    wanted = _describe(needs)
    if not any(_fits(needs, node) for node in nodes):
        most = {name: max(node.get(name, 0.0) for node in nodes) for name in needs}
        return "no node of the Ray cluster has %s (the most that one has: %s)" % (wanted, _describe(most))
    if not _fits(needs, free):
        unused = _describe({name: free.get(name, 0.0) for name in needs})
        return "the Ray cluster has no room: %s asked for, %s free" % (wanted, unused)
    return "Ray has not started its actor yet"


def why_ended(error: BaseException) -> dict[str, Any]:
    """Why an actor has ended without an exit code of its agent."""
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
    ordered = [*(name for name in _NAMES if name in amounts), *(name for name in amounts if name not in _NAMES)]
    return ", ".join(_describe_one(name, amounts[name]) for name in ordered) or "nothing"


def _describe_one(name: str, amount: float) -> str:
    if name.startswith(_ACCELERATOR):
        return ("a GPU of type " if amount > 0 else "none of type ") + name[len(_ACCELERATOR) :]
    return "%g %s" % (round(amount / _GB if name == "memory" else amount, 2), _NAMES.get(name, name))
