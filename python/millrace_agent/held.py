"""What an app is held to by its agent, where the kernel or its place does not do that, and what it has run out of."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .memory import Memory

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: An app decides how deep its folders are, and each that is open takes a descriptor.
_MAX_DEPTH = 200
_BLOCK_BYTES = 512
#: What is empty counts too: a disk holds only so many files, and whoever has millions keeps us at it for minutes.
_LEAST_BYTES = 4096
#: What others remove from the same disk hides what is written to a folder: it is measured that often anyway.
_MEASURE_SECONDS = 5.0
#: Of a folder with so many files that measuring takes long, a twentieth of the time is spent on it.
_REST = 20


class Folder:
    """Measured only if its disk has got so much fuller that it may hold more than it should."""

    def __init__(self, path: str, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._bytes = 0.0
        #: What was taken of the disk when it was measured.
        self._taken = 0
        self._next_at = 0.0
        self._is_measuring = False

    def may_be_over(self, now: float) -> bool:
        """Whether it is time to measure it. From now on it is being measured, until that is done."""
        if self._is_measuring:
            return False
        grown = _taken(self._path) - self._taken
        self._is_measuring = now >= self._next_at or self._bytes + grown > self._max_bytes
        return self._is_measuring

    def measure(self) -> bool:
        """Whether it holds too much; any thread may ask."""
        began = time.monotonic()
        self._taken = _taken(self._path)
        self._bytes = folder_bytes(self._path, self._max_bytes)
        done = time.monotonic()
        self._next_at = done + max(_MEASURE_SECONDS, _REST * (done - began))
        self._is_measuring = False
        return self._bytes > self._max_bytes


def folder_bytes(path: str, enough: int) -> float:
    """The space that a folder takes on its disk, with all in it. Links are not followed.

    Stops as soon as it is above `enough`; folders that lie too deep to be measured count as more than that.
    """
    try:
        # The first is the seat's own, and may be a link to another disk.
        return _bytes_in(os.open(path, _FLAGS), enough, 0)
    except OSError:
        return 0.0  # It was removed meanwhile.


def _bytes_in(folder: int, enough: float, depth: int) -> float:
    """Closes the folder. Holds no more names than one folder for each level: an app decides how many there are."""
    total = 0.0
    try:
        if depth > _MAX_DEPTH:
            return float("inf")
        with os.scandir(folder) as entries:
            for entry in entries:
                total += _own_bytes(entry)
                if total <= enough and entry.is_dir(follow_symlinks=False):
                    total += _inner_bytes(entry.name, folder, enough - total, depth + 1)
                if total > enough:
                    break
    except OSError:
        pass  # It was removed meanwhile.
    finally:
        os.close(folder)
    return total


def _inner_bytes(name: str, folder: int, enough: float, depth: int) -> float:
    try:
        inner = os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        return 0.0  # It was removed meanwhile, or the app has closed it to everybody.
    return _bytes_in(inner, enough, depth)


def _own_bytes(entry: os.DirEntry[str]) -> int:
    try:
        return max(_LEAST_BYTES, entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES)
    except OSError:
        return 0  # It was removed meanwhile.


def _taken(path: str) -> int:
    """What is taken of the disk that holds a folder; 0 if the folder is not there."""
    try:
        disk = os.statvfs(path)
        return (disk.f_blocks - disk.f_bfree) * disk.f_frsize
    except OSError:
        return 0


#: While nothing is near its limit, and as soon as something is.
_CALM_SECONDS = 1.0
_CLOSE_SECONDS = 0.1
#: Of its limit: nothing that uses less can pass it in a calm second unless it takes half of it at once.
_CLOSE_SHARE = 0.5
#: To look at very many processes, or at very much memory, takes long: a tenth of the time is spent on it.
_REST_FACTOR = 10


class Held:
    """Watches a seat. What takes long happens in threads of its own: it is as much as the app likes."""

    def __init__(self, wake: Callable[[], None], counts_place: bool = True) -> None:
        self._wake = wake
        self._memory: Memory | None = None
        self._folders: list[tuple[str, Folder]] = []
        self._look_at = 0.0
        #: Whether the kernel's count of processes that it ended for want of memory is this seat's alone.
        self._counts_place = counts_place
        #: How often the kernel had ended a process of this place before it counts.
        self._before = self._times_out_of_memory()
        #: Forks that were ended before they count.
        self._forgotten = 0
        #: Which of its folders holds too much, so that it has to end; none if it is empty.
        self.full = ""

    def watch_memory(self, most: int, top: int, forks: Callable[[], dict[str, int]]) -> None:
        """Ends replicas and templates that use more. `top` is the process that all are below."""
        from .memory import Memory

        self._memory = Memory(most, top, forks)
        _begin(self._watch_memory, self._memory)

    def watch_folder(self, name: str, path: str, most: int) -> None:
        """What it is called is how the service learns that it is `full`."""
        self._folders.append((name, Folder(path, most)))

    def pause_seconds(self) -> float | None:
        """How long until `look` is due; None for never."""
        return max(0.0, self._look_at - time.monotonic()) if self._folders else None

    def look(self) -> None:
        """Has those folders measured that may hold too much."""
        now = time.monotonic()
        if not self._folders or now < self._look_at:
            return
        self._look_at = now + _CALM_SECONDS
        for name, folder in self._folders:
            if folder.may_be_over(now):
                _begin_or_do(self._measure, name, folder)

    def is_over(self, name: str) -> bool:
        """Whether a folder holds too much now, for when nothing else is to be done meanwhile."""
        return any(folder.measure() for each, folder in self._folders if each == name)

    @property
    def deaths(self) -> int:
        """Processes of the seat that were ended because memory ran out, and that it did without."""
        return self._times_out_of_memory() - self._before + len(self._ended - {""}) - self._forgotten

    def forget(self) -> None:
        """Those that there were so far are known, or nobody wants to know of them."""
        self._before = self._times_out_of_memory()
        self._forgotten = len(self._ended - {""})

    def told(self) -> dict[str, Any]:
        """For the service, when all of it has ended."""
        is_out = "" in self._ended or self._times_out_of_memory() > self._before
        return {"is_out_of_memory": is_out, **({"full": self.full} if self.full else {})}

    def _times_out_of_memory(self) -> int:
        if not self._counts_place:
            return 0
        from . import looks

        return looks.times_out_of_memory()

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

    def _measure(self, name: str, folder: Folder) -> None:
        if folder.measure():
            self.full = name
            self._wake()


def _begin(work: Callable[..., None], *arguments: object) -> None:
    # Most agents never need a thread, and each start of an app waits for the imports of its agent.
    import threading

    threading.Thread(target=work, args=arguments, daemon=True).start()


def _begin_or_do(work: Callable[..., None], *arguments: object) -> None:
    """In a thread; but here where the app has started so many that none is left, and then it waits for its own door."""
    try:
        _begin(work, *arguments)
    except RuntimeError:
        work(*arguments)
