"""The user's `main.py`: imported once, its callable functions found, failures told as data."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any, Dict

from .bind import Entry, find_entries
from .signature import SignatureReader


class App:
    """An imported `main.py` and what may be called in it."""

    def __init__(self, module: ModuleType, entries: Dict[str, Entry]) -> None:
        self.module = module
        self.entries = entries
        self.has_async = any(entry.is_async for entry in entries.values())
        reader = SignatureReader()
        # Read once, at the import: replicas that are forked have it, and what a hint's code does counts as
        # the import's doing.
        self._functions = [reader.read(entry) for entry in entries.values()]

    def describe(self) -> Dict[str, Any]:
        """The part of HELLO that is the same for every replica of a version."""
        return {"python": "%d.%d.%d" % sys.version_info[:3], "functions": self._functions}


def load(ignore_extra: bool) -> App:
    """Imports `main.py` of the working directory; whatever it raises is the caller's to report."""
    module = importlib.import_module("main")
    return App(module, find_entries(module, ignore_extra))


def describe_failure(error: BaseException) -> Dict[str, str]:
    """Why the import failed: one line for callers, the whole traceback for the log."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "millrace_worker" not in frame.filename and "importlib" not in frame.filename]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(own)]
    lines += traceback.format_exception_only(type(error), error)
    return {"message": lines[-1].strip(), "traceback": "".join(lines)}
