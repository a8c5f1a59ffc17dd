"""Tells a whole volume for a backup: one line of JSON for each thing, and a file's bytes after its line."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any

from . import looks

_READ_BYTES = 1024 * 1024


def told(root: str) -> Iterator[dict[str, Any] | bytes]:
    """Folders come before what is in them. A file has as many bytes as its line says, whatever happens to it."""
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            names = sorted(os.listdir(os.path.join(root, folder)))
        except OSError:
            yield {"kind": "odd", "name": _text(folder)}
            continue
        for name in names:
            if not folder and name.startswith(looks.STAGED):
                continue
            path = os.path.join(folder, name)
            place = os.path.join(root, path)
            try:
                found = os.lstat(place)
                target = os.readlink(place) if stat.S_ISLNK(found.st_mode) else ""
            except OSError:
                continue  # Apps come and go with their files while we look.
            head = {"name": _text(path), "mode": stat.S_IMODE(found.st_mode), "modified": found.st_mtime}
            if not _is_text(path):
                yield {"kind": "odd", "name": head["name"]}
            elif stat.S_ISDIR(found.st_mode):
                yield {**head, "kind": "directory"}
                folders.append(path)
            elif stat.S_ISREG(found.st_mode):
                yield from _file(place, head)
            elif stat.S_ISLNK(found.st_mode):
                yield {**head, "kind": "link", "target": _text(target)}
            else:
                yield {"kind": "odd", "name": head["name"]}
    yield {"kind": "over"}


def _file(path: str, head: dict[str, Any]) -> Iterator[dict[str, Any] | bytes]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield {"kind": "odd", "name": head["name"]}
        return
    try:
        size = os.fstat(file).st_size
        yield {**head, "kind": "file", "size": size}
        left = size
        while left > 0:
            piece = os.read(file, min(left, _READ_BYTES))
            if not piece:
                break
            left -= len(piece)
            yield piece
        is_changed = left > 0 or os.fstat(file).st_size != size
        while left > 0:
            filling = bytes(min(left, _READ_BYTES))
            left -= len(filling)
            yield filling
        yield {"kind": "end", "changed": is_changed}
    finally:
        os.close(file)


def _is_text(path: str) -> bool:
    return _text(path) == path


def _text(path: str) -> str:
    """Not every name is UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")
