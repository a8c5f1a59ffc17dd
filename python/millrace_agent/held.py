"""The limits that the agent enforces where the kernel does not, and which of them an app has exceeded."""

from __future__ import annotations

import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .memory import Memory

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: The app decides how deep its folders are, and each level takes a descriptor.
_MAX_DEPTH = 200
_BLOCK_BYTES = 512
#: A further name of the storage in apps.
_STORAGE = "/persistent-storage"
_DELETED = " (deleted)"
#: Of one look for deleted files: more than an app may have.
_MAX_PROCESSES = 4_096
#: Empty files count too: a disk holds only so many, and measuring millions takes minutes.
_LEAST_BYTES = 4096
#: A folder is measured at least this often: what others remove from the same disk can hide what is written to it.
_MEASURE_SECONDS = 5.0
#: At most a twentieth of the time goes into measuring a folder of very many files.
_REST = 20


class Folder:
    """A folder with a limit, measured early if its disk has filled so much that it may exceed it."""

    def __init__(self, path: str, max_bytes: int, deleted: Callable[[], float] = lambda: 0.0) -> None:
        self._path = path
        self._max_bytes = max_bytes
        #: The disk space of its deleted files, which the kernel keeps while a process has them open.
        self._deleted = deleted
        self._bytes = 0.0
        #: How much of the disk was in use when it was measured.
        self._taken = 0
        self._next_at = 0.0
        self._is_measuring = False

    def may_be_over(self, now: float) -> bool:
        """Whether to measure it now; if so, do that before asking again."""
        if self._is_measuring:
            return False
        grown = _taken(self._path) - self._taken
        self._is_measuring = now >= self._next_at or self._bytes + grown > self._max_bytes
        return self._is_measuring

    def measure(self) -> bool:
        """Whether it holds too much; safe in any thread."""
        began = time.monotonic()
        self._taken = _taken(self._path)
        self._bytes = folder_bytes(self._path, self._max_bytes) + self._deleted()
        done = time.monotonic()
        self._next_at = done + max(_MEASURE_SECONDS, _REST * (done - began))
        self._is_measuring = False
        return self._bytes > self._max_bytes


def folder_bytes(path: str, enough: int) -> float:
    """The disk space of a folder with all its content, without following links. Stops above `enough`; folders that are
    too deep to be measured count as more than that.
    """
    try:
        # The folder itself is the seat's own, and may be a link to another disk.
        return _bytes_in(_open(path, 0), enough, 0)
    except OSError:
        return 0.0  # It was removed meanwhile.


def _bytes_in(folder: int, enough: float, depth: int) -> float:
    """Closes the folder. Reads names one at a time: the app decides how many there are."""
    total = 0.0
    try:
        if depth > _MAX_DEPTH:
            return float("inf")
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    total += max(_LEAST_BYTES, entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES)
                    if total <= enough and entry.is_dir(follow_symlinks=False):
                        inner = _open(entry.name, os.O_NOFOLLOW, folder)
                        total += _bytes_in(inner, enough - total, depth + 1)
                except OSError:
                    pass  # It was removed meanwhile, or belongs to another user who has closed it.
                if total > enough:
                    break
    except OSError:
        pass  # It was removed meanwhile.
    finally:
        os.close(folder)
    return total


def _open(path: str, flags: int, above: int | None = None) -> int:
    """Opens a folder. One that hides files, because an app of this user has closed it, is opened again."""
    try:
        opened = os.open(path, _FLAGS | flags, dir_fd=above)
    except PermissionError:
        # By its descriptor: the app may put a link to any file in its place meanwhile.
        held = os.open(path, _FLAGS | os.O_PATH | flags, dir_fd=above)
        try:
            os.chmod("/proc/self/fd/%d" % held, 0o700)
            return os.open("/proc/self/fd/%d" % held, _FLAGS)
        finally:
            os.close(held)
    found = os.fstat(opened)
    if found.st_uid == os.geteuid() and not found.st_mode & stat.S_IXUSR:
        os.fchmod(opened, 0o700)
    return opened


def deleted_bytes(top: int, name: str, storage: str | None) -> float:
    """The disk space of deleted files that processes below `top` hold open: of the storage, or all others."""
    from . import looks, memory

    files: dict[tuple[int, int], int] = {}
    pids = looks.below(top, _MAX_PROCESSES)
    for link in memory.links_in([folder for pid in pids for folder in memory.descriptor_folders(pid)]):
        try:
            path = os.readlink(link)
            # Only these: `stat` of a file on a network may take forever. Files in memory count as memory.
            if not path.endswith(_DELETED) or path.startswith(memory.IN_MEMORY):
                continue
            is_stored = path.startswith(((storage or _STORAGE) + "/", _STORAGE + "/"))
            if is_stored == (name == "storage"):
                found = os.stat(link)
                files[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK_BYTES if found.st_nlink == 0 else 0
        except OSError:
            pass  # It was closed, its process has ended, or it is hidden.
    return sum(files.values())


def _taken(path: str) -> int:
    """How much of a folder's disk is in use; 0 if the folder does not exist."""
    try:
        disk = os.statvfs(path)
        return (disk.f_blocks - disk.f_bfree) * disk.f_frsize
    except OSError:
        return 0


#: How often to look while nothing is near its limit, and while something is.
_CALM_SECONDS = 1.0
_CLOSE_SECONDS = 0.1
#: From this share on, usage is near its limit: below, an app would have to take half of the limit within a second.
_CLOSE_SHARE = 0.5
#: At most a tenth of the time goes into looking at very many processes.
_REST_FACTOR = 10


class Held:
    """Watches a seat. Measuring happens in other threads: the app decides how long it takes."""

    def __init__(self, wake: Callable[[], None], counts_place: bool = True) -> None:
        self._wake = wake
        self._memory: Memory | None = None
        self._folders: list[tuple[str, Folder]] = []
        self._look_at = 0.0
        #: Whether the kernel's count of out-of-memory kills is about this seat alone.
        self._counts_place = counts_place
        #: Out-of-memory kills by the kernel, and by this agent, that are known already.
        self._before = self._times_out_of_memory()
        self._forgotten = 0
        #: The name of a folder that holds too much, so that the seat must end; empty while there is none.
        self.full = ""

    def watch_memory(self, most: int, top: int, forks: Callable[[], dict[str, int]]) -> None:
        """Ends replicas and templates that use more. `top` is the process above all of them."""
        from .memory import Memory

        self._memory = Memory(most, top, forks)
        _begin(self._watch_memory, self._memory)

    def watch_folder(self, name: str, path: str, most: int, storage: str | None = None, top: int | None = None) -> None:
        """Watches a folder; `full` is its name when it holds more than `most` bytes, with the deleted files that
        processes below `top` (default: this one) hold open.
        """
        above = os.getpid() if top is None else top
        self._folders.append((name, Folder(path, most, lambda: deleted_bytes(above, name, storage))))

    def pause_seconds(self) -> float | None:
        """How long until `look` is due; None for never."""
        return max(0.0, self._look_at - time.monotonic()) if self._folders else None

    def look(self) -> None:
        """Measures the folders that may hold too much."""
        now = time.monotonic()
        if not self._folders or now < self._look_at:
            return
        self._look_at = now + _CALM_SECONDS
        for name, folder in self._folders:
            if folder.may_be_over(now):
                try:
                    _begin(self._measure, name, folder)
                except RuntimeError:
                    # The app has used up all threads. Its requests at the door wait meanwhile.
                    self._measure(name, folder)

    def is_over(self, name: str) -> bool:
        """Measures a folder in this thread: whether it holds too much."""
        return any(folder.measure() for each, folder in self._folders if each == name)

    @property
    def deaths(self) -> int:
        """How many processes of the seat were killed because memory ran out, while the seat continued."""
        return self._times_out_of_memory() - self._before + len(self._ended - {""}) - self._forgotten

    def forget(self) -> None:
        """Does not count what has happened so far."""
        self._before = self._times_out_of_memory()
        self._forgotten = len(self._ended - {""})

    def told(self) -> dict[str, Any]:
        """What the service gets to know when all processes have ended."""
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
