"""What type hints tell of an app's functions: never a reason not to start, and bounded in size and time."""

from __future__ import annotations

import json
import typing
from time import thread_time
from types import FunctionType
from typing import Any, Callable

from .bind import Entry
from .limits import APP_SCHEMA_VALUES, SCHEMA_VALUES
from .schema import Schema, SchemaWriter, class_name

MAX_FUNCTION_BYTES = 64 * 1024
# Of a whole app: every replica of it says hello.
_MAX_APP_BYTES = 1024 * 1024
# Of the processor, so that a busy machine tells no less. The schema of a model may be slow to make.
_MAX_APP_SECONDS = 1.0

_ABC = "collections.abc."
_ITERATORS = frozenset(_ABC + name for name in ("Iterator", "Generator", "AsyncIterator", "AsyncGenerator"))
_ITERABLES = _ITERATORS | {_ABC + "Iterable", _ABC + "AsyncIterable"}


class SignatureReader:
    """Describes the functions of one app, with a JSON Schema of each parameter and of the result."""

    def __init__(self) -> None:
        self._bytes_left = _MAX_APP_BYTES
        self._values_left = APP_SCHEMA_VALUES
        self._ends_at = thread_time() + _MAX_APP_SECONDS
        self._function_bytes = 0
        self._function_values = 0

    def read(self, entry: Entry) -> dict[str, Any]:
        """The function as HELLO tells it; `{}` for each hint that cannot be described."""
        signature = entry.describe()
        hints = _hints_of(entry.plain)
        self._function_bytes = self._function_values = 0
        result, streams = self._result(entry, hints.get("return", Any))
        schemas = [self._parameter(entry, parameter["name"], hints) for parameter in signature["parameters"]]
        is_fit = self._function_bytes <= min(MAX_FUNCTION_BYTES, self._bytes_left) and self._function_values <= min(
            SCHEMA_VALUES, self._values_left
        )
        if is_fit:
            self._bytes_left -= self._function_bytes
            self._values_left -= self._function_values
        for parameter, schema in zip(signature["parameters"], schemas):
            parameter["schema"] = schema if is_fit else {}
        return {**signature, "returns": result if is_fit else {}, "streams": streams}

    def _parameter(self, entry: Entry, name: str, hints: dict[str, Any]) -> Schema:
        default = [entry.defaults[name]] if name in entry.defaults else []
        writer = SchemaWriter(entry.plain.__globals__, is_result=False)
        return self._guard(lambda: writer.write(hints.get(name, Any), *default))

    def _result(self, entry: Entry, hint: Any) -> tuple[Schema, bool]:
        """The schema of what is returned, or of each thing that is yielded; and which of the two."""
        writer = SchemaWriter(entry.plain.__globals__, is_result=True)
        streams = entry.is_generator
        item: Any = Any

        def make() -> Schema:
            nonlocal streams, item
            item = writer.resolve(hint)
            kind = class_name(typing.get_origin(item) or item)
            if kind in (_ITERABLES if streams else _ITERATORS):
                streams, item = True, (*typing.get_args(item), Any)[0]
            elif streams:
                item = Any
            return writer.write(item)

        schema = self._guard(make)
        return schema, streams

    def _guard(self, make: Callable[[], Schema]) -> Schema:
        if self._bytes_left <= 0 or thread_time() > self._ends_at:
            return {}
        try:
            schema = make()
            self._function_bytes += len(json.dumps(schema, allow_nan=False))
            self._function_values += _values_in(schema)
            return schema
        except BaseException:  # noqa: BLE001 - hints are the user's code, and may raise anything
            return {}


def _values_in(schema: Schema) -> int:
    """How many JSON values are inside a schema, at any depth."""
    count = 0
    rest: list[Any] = [schema]
    while rest:
        each = rest.pop()
        if isinstance(each, (dict, list, tuple)):
            count += len(each)
            rest.extend(each.values() if isinstance(each, dict) else each)
    return count


def _hints_of(function: FunctionType) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except BaseException:  # noqa: BLE001 - one that cannot be evaluated: then each is tried by itself
        pass
    try:
        return dict(function.__annotations__)
    except BaseException:  # noqa: BLE001 - where annotations are lazy, reading them evaluates them
        return {}
