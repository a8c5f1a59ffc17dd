"""What changes a volume: each takes effect in one step."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Sequence

from . import looks

_FILE_MODE = 0o644
_COPY_BYTES = 8 * 1024 * 1024
#: What is on its way in or out is at the top of the volume under such a name, which no list shows.
_STAGED = looks.STAGED
#: What an operation that was cut short has left is removed by one that comes so much later.
_LEFT_SECONDS = 3600


def put(root: str, names: Sequence[str], source: int) -> dict[str, int | None]:
    """Copies an open file to its place, in one step that survives a power cut; gives the sizes before and after."""
    before = looks.size_of(root, names)
    folder = looks.make_folder(root, names[:-1])
    top = looks.open_folder(root, ())
    staged = _staged_name()
    try:
        after = _copy(source, staged, top)
        os.rename(staged, names[-1], src_dir_fd=top, dst_dir_fd=folder)
        os.fsync(folder)
    except BaseException:
        _forget(staged, top)
        raise
    finally:
        os.close(folder)
        os.close(top)
    return {"before": before, "after": after}


def remove_file(root: str, names: Sequence[str]) -> dict[str, int | None]:
    """Removes a file, or a link as such."""
    before = looks.size_of(root, names)
    folder = looks.open_folder(root, names[:-1])
    try:
        if stat.S_ISDIR(os.lstat(names[-1], dir_fd=folder).st_mode):
            raise looks.Refused("is a folder: end the path with /")
        os.unlink(names[-1], dir_fd=folder)
        os.fsync(folder)
    finally:
        os.close(folder)
    return {"before": before, "after": None}


def take_folder(root: str, names: Sequence[str]) -> None:
    """Takes a folder out of sight, for `sweep`."""
    folder = looks.open_folder(root, names[:-1])
    top = looks.open_folder(root, ())
    try:
        if not stat.S_ISDIR(os.lstat(names[-1], dir_fd=folder).st_mode):
            raise looks.Refused("is not a folder")
        _move_up(names[-1], folder, top)
        os.fsync(folder)
    finally:
        os.close(folder)
        os.close(top)


def sweep(root: str, is_removing: bool) -> None:
    """Removes what was taken out of sight: now, if this process has done that, else what others have left."""
    top = looks.open_folder(root, ())
    try:
        long_ago = time.time() - _LEFT_SECONDS
        with os.scandir(top) as every:
            staged = [entry.name for entry in every if entry.name.startswith(_STAGED)]
        for name in staged:
            try:
                found = os.lstat(name, dir_fd=top)
            except FileNotFoundError:
                continue  # Another operation removes the same.
            if found.st_ctime < long_ago or (is_removing and stat.S_ISDIR(found.st_mode)):
                _remove(name, top)
    finally:
        os.close(top)


def _remove(name: str, top: int) -> None:
    """Folders inside are moved up beside it and wait for their turn: however deep they lie, one is open at a time."""
    queue = [name]
    while queue:
        try:
            _remove_one(queue.pop(), top, queue)
        except OSError:
            pass  # Another operation is faster, or an app still writes there: a later sweep finds what is left.


def _remove_one(name: str, top: int, queue: list[str]) -> None:
    try:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    except NotADirectoryError:
        os.unlink(name, dir_fd=top)
        return
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    queue.append(_move_up(entry.name, folder, top))
                else:
                    os.unlink(entry.name, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)


def _move_up(name: str, folder: int, top: int) -> str:
    # An app may have taken the right to change it from itself.
    os.chmod(name, 0o700, dir_fd=folder)
    staged = _staged_name()
    os.rename(name, staged, src_dir_fd=folder, dst_dir_fd=top)
    return staged


def _copy(source: int, name: str, folder: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    target = os.open(name, flags, _FILE_MODE, dir_fd=folder)
    try:
        while _copy_some(source, target):
            pass
        os.fsync(target)
        return os.fstat(target).st_size
    finally:
        os.close(target)


def _copy_some(source: int, target: int) -> int:
    """By the file system itself where it can, which may share the blocks; at the end of the file nothing."""
    try:
        return os.copy_file_range(source, target, _COPY_BYTES)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    return os.sendfile(target, source, None, _COPY_BYTES)


def _forget(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass


def _staged_name() -> str:
    return _STAGED + os.urandom(16).hex()
