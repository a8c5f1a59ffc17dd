"""How much a folder holds that an app writes to."""

from __future__ import annotations

import os
import time

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
