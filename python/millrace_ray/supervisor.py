"""The supervisor's work: it begins seats, finds them again, ends them, and reports to the service."""

from __future__ import annotations

import asyncio
import platform
import ssl
import time
import traceback
from typing import Any

from .home import Home
from .seat import Seat, why_ended, why_waiting, with_accelerator

#: Between two attempts to reach a service.
_PAUSE_SECONDS = 0.5
#: How long an agent has to end what it started, before its actor is killed.
_END_SECONDS = 10.0
#: How much longer than its seats it looks for a service.
_LONGER_SECONDS = 15.0
#: Between two looks at the cluster's nodes.
_LOOK_SECONDS = 2.0
#: Between two requests to an actor that Ray cannot reach at the moment.
_RETRY_SECONDS = 1.0


class Supervisor:
    """The seats of one service. `ray` is Ray's own module, connected."""

    def __init__(self, ray: Any, namespace: str) -> None:
        self._ray = ray
        self._namespace = namespace
        self._home: Home | None = None
        #: The last message about each seat.
        self._news: dict[str, tuple[str, dict[str, Any]]] = {}
        self._actors: dict[str, Any] = {}
        self._needs: dict[str, dict[str, float]] = {}
        self._ending: set[str] = set()
        self._tasks: set[asyncio.Future[None]] = set()
        self._is_leaving = False
        #: The known addresses of the cluster's nodes.
        self._nodes: set[str] = set()

    async def run(
        self, context: ssl.SSLContext, addresses: list[tuple[str, int]], preface: str, grace_seconds: float
    ) -> None:
        """Works until a service tells it to leave, or no service was found for longer than its seats look for one."""
        self._do(self._look_around())
        served_at = time.monotonic()
        turn = 0
        while not self._is_leaving and time.monotonic() - served_at < grace_seconds + _LONGER_SECONDS:
            address = addresses[turn % len(addresses)]
            turn += 1
            try:
                self._home = await Home.reach(context, address, preface)
            except (OSError, asyncio.TimeoutError):
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if await self._serve(self._home):
                served_at = time.monotonic()
            else:
                await asyncio.sleep(_PAUSE_SECONDS)
        # Seats that have begun end by themselves if their agents find no service. The others are not needed any more.
        for seat, (word, _) in list(self._news.items()):
            if word == "waiting" or seat in self._ending:
                self._kill(seat)

    async def _serve(self, home: Home) -> bool:
        """Handles one connection; returns whether the service accepted it."""
        is_known = False

        def hear(word: str, value: Any) -> None:
            nonlocal is_known
            if not is_known:
                home.say("hello", {"ray": self._ray.__version__, "python": platform.python_version()})
            is_known = True
            self._hear(word, value)

        await home.listen(hear)
        self._home = None
        return is_known

    def _hear(self, word: str, value: Any) -> None:
        if word == "keep":
            self._do(self._keep(set(value["seats"])))
        elif word == "find":
            self._do(self._find(value["seat"], value["namespace"]))
        elif word == "begin":
            self._do(self._begin(value["seat"], value["order"], value["needs"], value.get("accelerators", [])))
        elif word == "end":
            self._do(self._end(value["seat"]))
        elif word == "forget":
            # It belongs to another service, or soon will.
            self._actors.pop(value["seat"], None)
            self._forget(value["seat"])
        elif word == "leave":
            self._is_leaving = True

    def _do(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._reap)

    def _reap(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            traceback.print_exception(type(error), error, error.__traceback__)

    def _tell(self, seat: str, word: str, value: dict[str, Any]) -> None:
        self._news[seat] = (word, value)
        if self._home is not None:
            self._home.say(word, {"seat": seat, **value})
        if word == "ended" and seat in self._ending:
            self._forget(seat)  # The service does not ask for it any more.

    async def _keep(self, seats: set[str]) -> None:
        """Ends seats that the service gave up while it had no supervisor."""
        for seat in [seat for seat in self._news if seat not in seats]:
            self._do(self._end(seat))
        names: list[str] = await asyncio.to_thread(self._ray.util.list_named_actors)
        for name in names:
            # Seats in the news have come since.
            if name not in seats and name not in self._news:
                actor = await asyncio.to_thread(self._look_up, name, self._namespace)
                if actor is not None:
                    self._ray.kill(actor)

    async def _find(self, seat: str, namespace: str) -> None:
        """Finds a seat that has begun, perhaps under another supervisor."""
        if seat in self._news:
            word, value = self._news[seat]
            self._tell(seat, word, value)
            return
        actor = await asyncio.to_thread(self._look_up, seat, namespace)
        if actor is None:
            self._tell(seat, "ended", {"code": None, "why": "its Ray actor is gone", "is_out_of_memory": False})
            return
        self._actors[seat] = actor
        self._tell(seat, "begun", {})
        self._do(self._inform(actor))
        await self._attend(seat, actor)

    async def _begin(self, seat: str, order: dict[str, Any], needs: dict[str, float], accelerators: list[str]) -> None:
        if seat in self._news:
            await self._find(seat, self._namespace)
            return
        self._needs[seat] = needs
        self._news[seat] = ("waiting", {"why": "Ray has not started its actor yet"})
        try:
            if accelerators:
                nodes, _ = await asyncio.to_thread(self._room)
                needs = self._needs[seat] = with_accelerator(needs, accelerators, nodes)
            actor = await asyncio.to_thread(self._make, seat, needs)
            self._actors[seat] = actor
            if seat in self._ending:
                self._ray.kill(actor)
            await actor.learn.remote(await asyncio.to_thread(self._node_addresses))
            await actor.start.remote(order)
        except Exception as error:  # noqa: BLE001 - any error is reported
            self._lose(seat, error)
            return
        self._tell(seat, "begun", {})
        await self._attend(seat, actor)

    async def _attend(self, seat: str, actor: Any) -> None:
        """Waits until the agent has ended, or its actor."""
        while True:
            try:
                code: int = await actor.wait.remote()
                self._kill(seat)
                # As in a shell.
                known = code if code >= 0 else 128 - code
                self._tell(seat, "ended", {"code": known, "why": None, "is_out_of_memory": False})
                return
            except Exception as error:  # noqa: BLE001 - any error is reported
                if type(error).__name__ != "ActorUnavailableError":
                    self._lose(seat, error)
                    return
            await asyncio.sleep(_RETRY_SECONDS)

    async def _end(self, seat: str) -> None:
        """Asks the agent to end; kills its actor if that takes too long, or if it has no agent yet."""
        word, _ = self._news.get(seat, ("", None))
        if word == "ended":
            self._forget(seat)
        if word in ("ended", "") or seat in self._ending:
            return
        self._ending.add(seat)
        actor = self._actors.get(seat)
        if actor is None:
            return  # `_begin` still makes it, and kills it then.
        if word == "begun":
            actor.stop.remote()
            await asyncio.sleep(_END_SECONDS)
        self._kill(seat)

    def _lose(self, seat: str, error: BaseException) -> None:
        self._kill(seat)
        self._tell(seat, "ended", why_ended(error))

    def _forget(self, seat: str) -> None:
        self._news.pop(seat, None)
        self._needs.pop(seat, None)
        self._ending.discard(seat)

    def _kill(self, seat: str) -> None:
        """Kills the actor; its agent gets a signal from the kernel."""
        actor = self._actors.pop(seat, None)
        if actor is not None:
            self._ray.kill(actor)

    # Calls of Ray, which may take long: each runs in a thread.

    def _make(self, seat: str, needs: dict[str, float]) -> Any:
        more = {name: amount for name, amount in needs.items() if name not in ("CPU", "GPU", "memory")}
        options: dict[str, Any] = {
            "name": seat,
            "namespace": self._namespace,
            "get_if_exists": True,
            "lifetime": "detached",
            "max_restarts": 0,
            # By default Ray's workers have a low priority.
            "runtime_env": {"env_vars": {"RAY_worker_niceness": "0"}},
            "num_cpus": needs.get("CPU", 0),
            "num_gpus": needs.get("GPU", 0),
            "resources": more,
        }
        if "memory" in needs:
            options["memory"] = needs["memory"]
        return self._ray.remote(Seat).options(**options).remote()

    def _look_up(self, seat: str, namespace: str) -> Any:
        try:
            return self._ray.get_actor(seat, namespace=namespace)
        except ValueError:
            return None

    async def _look_around(self) -> None:
        """Reports why actors do not start, and follows the cluster's nodes."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self._follow_nodes()
            if not any(word == "waiting" for word, _ in self._news.values()):
                continue
            try:
                nodes, free = await asyncio.to_thread(self._room)
            except Exception:  # noqa: BLE001 - Ray is busy: next time
                continue
            for seat, (word, value) in list(self._news.items()):
                if word == "waiting":
                    why = why_waiting(self._needs[seat], nodes, free)
                    if why != value["why"]:
                        self._tell(seat, "waiting", {"why": why})

    async def _follow_nodes(self) -> None:
        """Tells every seat of new nodes, which its apps must not reach."""
        try:
            nodes = await asyncio.to_thread(self._node_addresses)
        except Exception:  # noqa: BLE001 - Ray is busy: next time
            return
        if set(nodes) != self._nodes:
            self._nodes = set(nodes)
            for actor in list(self._actors.values()):
                self._do(self._inform(actor))

    async def _inform(self, actor: Any) -> None:
        if not self._nodes:
            return  # It hears of them as soon as they are known.
        try:
            await actor.learn.remote(sorted(self._nodes))
        except Exception:  # noqa: BLE001 - it has ended, or is of an older release
            pass

    def _room(self) -> tuple[list[dict[str, float]], dict[str, float]]:
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return nodes, self._ray.available_resources()

    def _node_addresses(self) -> list[str]:
        """Apps must not reach the cluster's machines: what listens there obeys every caller."""
        return [node["NodeManagerAddress"] for node in self._ray.nodes() if node["Alive"]]
