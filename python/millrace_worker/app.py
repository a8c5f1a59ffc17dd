"""Imports the user's `main.py`, and describes its functions and failures."""

from __future__ import annotations

import importlib
import json
import sys
from types import ModuleType
from typing import Any

from .bind import SETUP, Entry, find_entries
from .frames import FUNCTIONS, HELLO_BYTES, MESSAGE_CHARS, NAME_CHARS, PARAMETERS, TRACEBACK_CHARS
from .logs import shorten
from .signature import SignatureReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .stepped import SteppedEntry


class Order:
    """The settings that the processes of an app version need."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.address: str = fields["address"]
        self.bundle_dir: str = fields["bundle_dir"]
        self.concurrency: int = fields["concurrency"]
        self.ignore_extra: bool = fields["ignore_extra"]
        #: By function: `key`, `size`, `on_error`, `stepper`.
        self.batching: dict[str, dict[str, Any]] = fields.get("batching") or {}
        self.max_result_bytes: int = fields["max_result_bytes"]
        self.max_chunk_bytes: int = fields["max_chunk_bytes"]
        #: Whether the parent is this process's keeper; if not, this process becomes a keeper first.
        self.is_kept: bool = fields.get("kept") is True
        #: Set if this process may become a template.
        self.template_ticket: str | None = fields.get("template_ticket")
        #: For the replica that this process becomes, at once or because it may not fork.
        self.replica_ticket: str | None = fields.get("replica_ticket")
        #: The device files of the GPUs that forks of this process may ever get; none if its forks need not tell.
        self.gpu_files: list[str] = fields.get("gpu_files") or []


#: Room in HELLO for everything except the functions.
_SPARE_BYTES = 64 * 1024


class TooMuch(Exception):
    """main.py has more functions or parameters than HELLO can describe."""


class App:
    """An imported `main.py`: its callable functions and its `setup`. Raises TypeError if it cannot be run, or if the
    tables for batches do not fit it.
    """

    def __init__(
        self,
        module: ModuleType,
        entries: dict[str, Entry],
        batching: dict[str, dict[str, Any]],
        steppers: dict[str, SteppedEntry],
    ) -> None:
        self.module = module
        #: What runs the functions that have no `def`.
        self.steppers = steppers
        self.setup = entries.pop(SETUP, None)
        if self.setup:
            self.setup.require_setup()
        self.entries = entries
        for name, rules in batching.items():
            if rules["stepper"] is None:
                if name not in entries:
                    raise TypeError("[batching.%s]: main.py has no function %s that can be called" % (name, name))
                entries[name].take_lists(rules["key"], rules["size"], rules["on_error"])
        # `setup` too: what it starts on the event loop runs on.
        self.has_async = any(entry.is_async for entry in (*entries.values(), self.setup) if entry)
        reader = SignatureReader()
        # With the import: forked replicas inherit it, and effects of the hints' code count as the import's.
        self._functions = _fit([reader.read(entry) for entry in (*entries.values(), *steppers.values())])

    def describe(self) -> dict[str, Any]:
        """The part of HELLO that is the same for every replica of a version."""
        return {"python": "%d.%d.%d" % sys.version_info[:3], "functions": self._functions}


_payload_limits = (0, 0)


def payload_limits() -> tuple[int, int]:
    """The largest result and the largest chunk of this app, in bytes."""
    return _payload_limits


def load(order: Order) -> App:
    """Imports `main.py` of the working directory; raises whatever the import raises."""
    global _payload_limits
    _payload_limits = order.max_result_bytes, order.max_chunk_bytes
    module = importlib.import_module("main")
    entries = find_entries(module, order.ignore_extra)
    return App(module, entries, order.batching, find_steppers(module, order))


def find_steppers(module: ModuleType, order: Order) -> dict[str, SteppedEntry]:
    """The classes that the app's configuration names as steppers, by function. Raises TypeError if one is none."""
    found: dict[str, SteppedEntry] = {}
    for name, batching in order.batching.items():
        class_name = batching.get("stepper")
        if class_name is not None:
            from .stepped import find_stepper

            found[name] = find_stepper(module, name, class_name, order.ignore_extra)
    return found


def _fit(functions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drops notes and hints if the functions take too much space. Raises TooMuch."""
    parameters = [parameter for function in functions for parameter in function["parameters"]]
    if len(functions) > FUNCTIONS:
        raise TooMuch(
            "main.py has %d functions, but at most %d can be callable: start the names of the others with _"
            % (len(functions), FUNCTIONS)
        )
    if len(parameters) > PARAMETERS:
        raise TooMuch(
            "the functions of main.py have %d parameters, but at most %d are allowed" % (len(parameters), PARAMETERS)
        )
    if any(len(parameter["name"]) > NAME_CHARS for parameter in parameters):
        raise TooMuch("a parameter of main.py has a name of more than %d characters" % NAME_CHARS)
    for dropped, empty in (((), None), (("doc", "annotation", "default"), None), (("schema", "returns"), {})):
        for each in functions + parameters:
            each.update({key: empty for key in dropped if key in each})
        if len(json.dumps(functions)) <= HELLO_BYTES - _SPARE_BYTES:
            return functions
    raise TooMuch("the functions of main.py take more than %d bytes to describe" % HELLO_BYTES)


#: In the paths of files whose frames tell the author of an app nothing.
_NOT_THE_APPS = ("millrace_worker", "millrace_cog", "importlib")


def describe_failure(error: BaseException) -> dict[str, str]:
    """Why the import or `setup` failed: one line for callers, the whole traceback for the log."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(name in frame.filename for name in _NOT_THE_APPS)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(own)]
    lines += traceback.format_exception_only(type(error), error)
    return {"message": lines[-1].strip()[:MESSAGE_CHARS], "traceback": shorten("".join(lines))[-TRACEBACK_CHARS:]}
