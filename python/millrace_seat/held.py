"""What the app of a seat is held to where others use its machine too, and what it has run out of."""

from __future__ import annotations

import threading
import time

from . import looks
from .disk import Folder
from .memory import REST, Memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .order import Limits

#: While nothing is near its limit, and as soon as something is.
_CALM_SECONDS = 1.0
_CLOSE_SECONDS = 0.1
#: Of its limit: nothing that uses less can pass it in a calm second unless it takes half of it at once.
_CLOSE_SHARE = 0.5
#: To look at very many processes, or at very much memory, takes long: a tenth of the time is spent on it.
_REST_FACTOR = 10


class Held:
    """Watches a seat in threads of its own: what it has to look at is as much as the app likes."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._memory: Memory | None = None
        #: How often the kernel had ended a process of this place before it counts.
        self._before = looks.times_out_of_memory()
        #: Forks that were ended before they count.
        self._forgotten = 0
        #: Which of its folders holds too much, so that it has to end; none if it is empty.
        self.full = ""

    def watch(
        self, limits: Limits | None, top: int, forks: Callable[[], dict[str, int]], written: dict[str, str]
    ) -> None:
        """Holds to its limits what is below that keeper. `written` are the folders that it writes to, by name."""
        if limits is None:
            return
        if limits.memory is not None:
            self._memory = Memory(limits.memory, top, forks)
            _begin(self._watch_memory, self._memory)
        for name, path in written.items():
            most = limits.folders.get(name)
            if most is not None:
                _begin(self._watch_folder, name, Folder(path, most))

    @property
    def deaths(self) -> int:
        """Processes of the seat that were ended because memory ran out, and that it did without."""
        return looks.times_out_of_memory() - self._before + len(self._ended - {REST}) - self._forgotten

    def forget(self) -> None:
        """Those that there were so far are known, or nobody wants to know of them."""
        self._before = looks.times_out_of_memory()
        self._forgotten = len(self._ended - {REST})

    def told(self) -> dict[str, Any]:
        """For the service, when all of it has ended."""
        is_out = REST in self._ended or looks.times_out_of_memory() > self._before
        return {"is_out_of_memory": is_out, **({"full": self.full} if self.full else {})}

    @property
    def _ended(self) -> set[str]:
        return set() if self._memory is None else set(self._memory.ended)

    def _watch_memory(self, memory: Memory) -> None:
        pause = _CLOSE_SECONDS
        while True:
            time.sleep(pause)
            began = time.monotonic()
            share = memory.look()
            pause = _CLOSE_SECONDS if share > _CLOSE_SHARE else _CALM_SECONDS
            pause = max(pause, _REST_FACTOR * (time.monotonic() - began))

    def _watch_folder(self, name: str, folder: Folder) -> None:
        while not folder.is_over():
            time.sleep(_CALM_SECONDS)
        self.full = name
        self._wake()


def _begin(work: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()
