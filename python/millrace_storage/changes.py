"""Changes to a volume; each takes effect in one step."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress

from . import looks

_FILE_MODE = 0o644
_COPY_BYTES = 8 * 1024 * 1024
_STAGED = looks.STAGED
#: The age at which a later operation removes what an interrupted one has left.
_LEFT_SECONDS = 3600


def put(root: str, names: Sequence[str], source: int) -> dict[str, int | None]:
    """Copies an open file to its place, in one step that survives a power failure; returns the old and the new size."""
    before = looks.size_of(root, names)
    staged = _STAGED + os.urandom(16).hex()
    with looks.make_folder(root, names[:-1]) as folder, looks.folder_at(root, ()) as top:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with looks.closing(os.open(staged, flags, _FILE_MODE, dir_fd=top)) as target:
                while _copy_some(source, target):
                    pass
                os.fsync(target)
                after = os.fstat(target).st_size
            os.rename(staged, names[-1], src_dir_fd=top, dst_dir_fd=folder)
            os.fsync(folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(staged, dir_fd=top)
            raise
    return {"before": before, "after": after}


def remove_file(root: str, names: Sequence[str]) -> dict[str, int | None]:
    """Removes a file, or a link instead of its target."""
    before = looks.size_of(root, names)
    with looks.folder_at(root, names[:-1]) as folder:
        if stat.S_ISDIR(os.lstat(names[-1], dir_fd=folder).st_mode):
            raise looks.Refused("is a folder: end the path with /")
        os.unlink(names[-1], dir_fd=folder)
        os.fsync(folder)
    return {"before": before, "after": None}


def take_folder(root: str, names: Sequence[str]) -> None:
    """Hides a folder until `sweep` removes it."""
    with looks.folder_at(root, names[:-1]) as folder, looks.folder_at(root, ()) as top:
        if not stat.S_ISDIR(os.lstat(names[-1], dir_fd=folder).st_mode):
            raise looks.Refused("is not a folder")
        _move_up(names[-1], folder, top)
        os.fsync(folder)


def sweep(root: str, is_removing: bool) -> None:
    """Removes hidden folders, if `is_removing`, and what interrupted operations have left."""
    long_ago = time.time() - _LEFT_SECONDS
    with looks.folder_at(root, ()) as top:
        with os.scandir(top) as every:
            staged = [entry.name for entry in every if entry.name.startswith(_STAGED)]
        for name in staged:
            with suppress(FileNotFoundError):  # Another operation has removed it.
                found = os.lstat(name, dir_fd=top)
                if found.st_ctime < long_ago or (is_removing and stat.S_ISDIR(found.st_mode)):
                    _remove(name, top)


def _remove(name: str, top: int) -> None:
    """Removes a folder at the top. Moves inner folders up to the top first, so that any depth needs one descriptor."""
    queue = [name]
    while queue:
        with suppress(OSError):  # Another operation is faster, or an app still writes there: a later sweep removes it.
            _remove_one(queue.pop(), top, queue)


def _remove_one(name: str, top: int, queue: list[str]) -> None:
    try:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    except NotADirectoryError:
        os.unlink(name, dir_fd=top)
        return
    with looks.closing(folder), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                queue.append(_move_up(entry.name, folder, top))
            else:
                os.unlink(entry.name, dir_fd=folder)
    os.rmdir(name, dir_fd=top)


def _move_up(name: str, folder: int, top: int) -> str:
    # The app may have made it read-only.
    os.chmod(name, 0o700, dir_fd=folder)
    staged = _STAGED + os.urandom(16).hex()
    os.rename(name, staged, src_dir_fd=folder, dst_dir_fd=top)
    return staged


def _copy_some(source: int, target: int) -> int:
    """Copies within the file system if it can, which may share blocks. Returns 0 at the end of the file."""
    try:
        return os.copy_file_range(source, target, _COPY_BYTES)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    return os.sendfile(target, source, None, _COPY_BYTES)
