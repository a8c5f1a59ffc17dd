"""What type hints tell of an app's functions: never a reason not to start, and bounded in size and time."""

from __future__ import annotations

import json
import sys
import types
import typing
from collections.abc import Iterable
from time import thread_time
from types import FunctionType
from typing import Any, Callable

from .bind import Entry, annotation_text
from .frames import APP_SCHEMA_VALUES, SCHEMA_VALUES

Schema = dict[str, Any]

#: A hint whose parts are shared can be small in memory and endless when it is written out.
MAX_PARTS = 4096

_ARRAY: Schema = {"type": "array"}
_SET: Schema = {"type": "array", "uniqueItems": True}
_OBJECT: Schema = {"type": "object"}
_NULL: Schema = {"type": "null"}
# By name: importing datetime, uuid and enum here would slow every start for apps without them.
_CLASSES: dict[str, Schema] = {
    "builtins.bool": {"type": "boolean"},
    "builtins.int": {"type": "integer"},
    "builtins.float": {"type": "number"},
    "builtins.str": {"type": "string"},
    "builtins.NoneType": _NULL,
    "builtins.list": _ARRAY,
    "builtins.tuple": _ARRAY,
    "builtins.set": _SET,
    "builtins.frozenset": _SET,
    "builtins.dict": _OBJECT,
    "collections.deque": _ARRAY,
    "collections.abc.Sequence": _ARRAY,
    "collections.abc.Set": _SET,
    "collections.abc.Mapping": _OBJECT,
    "collections.abc.Iterable": _ARRAY,
    "datetime.datetime": {"type": "string", "format": "date-time"},
    "datetime.date": {"type": "string", "format": "date"},
    "datetime.time": {"type": "string", "format": "time"},
    "uuid.UUID": {"type": "string", "format": "uuid"},
}
_QUALIFIERS = frozenset(("Required", "NotRequired", "ReadOnly", "Final", "ClassVar"))
_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))


#: The attribute of a class, or of what Annotated carries, that holds a schema of its own.
OWN_SCHEMA = "__json_schema__"


class NotJson(Exception):
    """A value that JSON cannot hold."""


class TooLarge(Exception):
    """The hint has more parts than anybody would read."""


class SchemaWriter:
    """Writes one schema, whole in itself: the classes it refers to are in its `$defs`."""

    def __init__(self, scope: dict[str, Any], is_result: bool) -> None:
        #: Where names in hints that are text are looked up.
        self._scope = scope
        #: A result has every field of its class; an argument may leave out those with a default.
        self._is_result = is_result
        self._parts_left = MAX_PARTS
        self._names: dict[int, str] = {}
        self._definitions: dict[str, Schema] = {}

    def write(self, hint: Any, *default: Any) -> Schema:
        """The schema of the hint, with a default value if one is given; raises whatever the hint's code raises."""
        schema = self._write(hint)
        for value in default:
            schema = self._with_default(schema, value)
        return {**schema, "$defs": self._definitions} if self._definitions else schema

    def resolve(self, hint: Any) -> Any:
        """A hint that is text, evaluated; any other as it is."""
        if not isinstance(hint, (str, typing.ForwardRef)):
            return hint

        def holder() -> None: ...

        holder.__annotations__ = {"hint": hint}
        return typing.get_type_hints(holder, self._scope, include_extras=True)["hint"]

    def _write(self, hint: Any) -> Schema:
        self._count()
        if hint is None:
            return _NULL
        if isinstance(hint, (str, typing.ForwardRef)):
            return self._write(self.resolve(hint))
        origin = typing.get_origin(hint)
        return self._bare(hint) if origin is None else self._generic(hint, origin, typing.get_args(hint))

    def _bare(self, hint: Any) -> Schema:
        if isinstance(hint, type):
            return self._class(hint)
        if hasattr(hint, "__supertype__"):  # NewType
            return self._write(hint.__supertype__)
        if isinstance(hint, typing.TypeVar):
            return self._any_of(hint.__constraints__ or (hint.__bound__ or Any,))
        if type(hint).__name__ == "TypeAliasType":
            return self._refer(hint, lambda alias: self._write(alias.__value__))
        return {}

    def _generic(self, hint: Any, origin: Any, args: tuple[Any, ...]) -> Schema:
        name = getattr(origin, "_name", None)
        if origin is typing.Annotated:
            return _described(self._write(args[0]), hint.__metadata__)
        if origin in _UNIONS:
            return self._any_of(args)
        if name == "Literal":
            return self._choice(args)
        if name in _QUALIFIERS:
            return self._write(args[0])
        schema = self._bare(origin)
        if schema is _ARRAY and origin is tuple:
            return self._tuple(args)
        if schema in (_ARRAY, _SET) and len(args) == 1:
            return _with(schema, "items", self._write(args[0]))
        if schema is _OBJECT and len(args) == 2:
            return _with(schema, "additionalProperties", self._write(args[1]))
        return schema

    def _class(self, kind: type) -> Schema:
        own = getattr(kind, OWN_SCHEMA, None)
        if isinstance(own, dict):
            return own
        if callable(getattr(kind, "model_json_schema", None)):
            return self._refer(kind, self._model)
        bases = [class_name(base) for base in kind.__mro__]
        if "enum.Flag" in bases:
            return {"type": "integer"}
        if "enum.Enum" in bases:
            return self._refer(kind, lambda each: self._choice([member.value for member in each]))
        if hasattr(kind, "__dataclass_fields__"):
            return self._refer(kind, self._dataclass)
        if hasattr(kind, "__required_keys__"):
            return self._refer(kind, self._typed_dict)
        if hasattr(kind, "_fields") and tuple in kind.__mro__:
            return self._refer(kind, self._named_tuple)
        return next((_CLASSES[base] for base in bases if base in _CLASSES), {})

    def _refer(self, owner: Any, make: Callable[[Any], Schema]) -> Schema:
        name = self._names.get(id(owner))
        if name is None:
            name = self._names[id(owner)] = self._free_name(owner.__name__)
            self._definitions[name] = {}  # Taken before it is written: a type may hold itself.
            try:
                self._definitions[name] = make(owner)
            except TooLarge:
                raise
            except Exception:  # noqa: BLE001 - the rest of the hint can still be described
                pass
        return {"$ref": "#/$defs/" + name}

    def _free_name(self, text: str) -> str:
        plain = "".join(each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in text)
        name, number = plain or "_", 1
        while name in self._definitions:
            number += 1
            name = "%s_%d" % (plain, number)
        return name

    def _model(self, model: Any) -> Schema:
        """A pydantic model, or what describes itself as one."""
        mode = "serialization" if self._is_result else "validation"
        name = self._names[id(model)]
        schema = dict(model.model_json_schema(mode=mode))
        inner: dict[str, Schema] = schema.pop("$defs", {})
        if schema.get("$ref") == "#/$defs/" + name:  # It holds itself.
            schema = inner.pop(name)
        if any(self._definitions.get(each, inner[each]) != inner[each] for each in inner):
            # Another class has the name of one of these.
            schema = dict(model.model_json_schema(mode=mode, ref_template="#/$defs/" + name + ".{model}"))
            inner = {"%s.%s" % (name, each): value for each, value in schema.pop("$defs", {}).items()}
        self._definitions.update(inner)
        return schema

    def _dataclass(self, kind: Any) -> Schema:
        dataclasses = sys.modules["dataclasses"]
        hints = _class_hints(kind)
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for field in dataclasses.fields(kind):
            if not field.init and not self._is_result:
                continue
            schema = self._write(hints.get(field.name, Any))
            has_default = field.default is not dataclasses.MISSING
            properties[field.name] = self._with_default(schema, field.default) if has_default else schema
            if self._is_result or (not has_default and field.default_factory is dataclasses.MISSING):
                required.append(field.name)
        return _object(properties, required)

    def _typed_dict(self, kind: Any) -> Schema:
        hints = _class_hints(kind)
        properties = {name: self._write(hints.get(name, Any)) for name in kind.__annotations__}
        required: list[str] = []
        for name in properties:
            # Where annotations are text the class itself has not seen these two.
            said = getattr(typing.get_origin(hints.get(name)), "_name", None)
            if said == "Required" or (said != "NotRequired" and name in kind.__required_keys__):
                required.append(name)
        return _object(properties, required)

    def _named_tuple(self, kind: Any) -> Schema:
        hints = _class_hints(kind)
        items = [self._write(hints.get(name, Any)) for name in kind._fields]
        least = len(items) if self._is_result else len(items) - len(kind._field_defaults)
        return {**_ARRAY, "prefixItems": items, "minItems": least, "maxItems": len(items)}

    def _tuple(self, args: tuple[Any, ...]) -> Schema:
        if len(args) == 2 and args[1] is Ellipsis:
            return _with(_ARRAY, "items", self._write(args[0]))
        if args in ((), ((),)):
            return _ARRAY
        items = [self._write(item) for item in args]
        return {**_ARRAY, "prefixItems": items, "minItems": len(items), "maxItems": len(items)}

    def _any_of(self, hints: Iterable[Any]) -> Schema:
        parts: list[Schema] = []
        for hint in hints:
            part = self._write(hint)
            if part not in parts:
                parts.append(part)
        if {} in parts:
            return {}
        return parts[0] if len(parts) == 1 else {"anyOf": parts}

    def _choice(self, values: Iterable[Any]) -> Schema:
        try:
            choice = [self._value(value) for value in values]
        except NotJson:
            return {}
        kinds = {class_name(type(value)) for value in choice}
        schema = _CLASSES[kinds.pop()] if len(kinds) == 1 else {}
        return {**schema, "const": choice[0]} if len(choice) == 1 else _with(schema, "enum", choice)

    def _with_default(self, schema: Schema, value: Any) -> Schema:
        try:
            default = self._value(value)
        except NotJson:
            return schema
        if default is None and schema and schema != _NULL and _NULL not in schema.get("anyOf", ()):
            schema = {"anyOf": [schema, _NULL]}
        return {**schema, "default": default}

    def _value(self, value: Any) -> Any:
        self._count()
        kind = type(value)
        if value is None or kind in (bool, int, str) or (kind is float and value - value == 0):
            return value
        if kind in (list, tuple):
            return [self._value(item) for item in value]
        if kind is dict and all(type(key) is str for key in value):
            return {key: self._value(item) for key, item in value.items()}
        if any(class_name(base) == "enum.Enum" for base in kind.__mro__):
            return self._value(value.value)
        raise NotJson

    def _count(self) -> None:
        self._parts_left -= 1
        if self._parts_left < 0:
            raise TooLarge


def class_name(kind: Any) -> str:
    """A class by its module and name; empty for what is no class."""
    return "%s.%s" % (kind.__module__, kind.__qualname__) if isinstance(kind, type) else ""


def _class_hints(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001 - names that only a type checker imports; its fields are then of any type
        return {}


def _described(schema: Schema, metadata: tuple[Any, ...]) -> Schema:
    """With the schema and the first text that Annotated carries: itself, a Doc's, or that of pydantic's Field."""
    for each in metadata:
        own = getattr(each, OWN_SCHEMA, None)
        if isinstance(own, dict):
            schema = {**schema, **own}
    for each in metadata:
        for text in (each, getattr(each, "documentation", None), getattr(each, "description", None)):
            if isinstance(text, str) and text:
                return {**schema, "description": text}
    return schema


def _object(properties: dict[str, Schema], required: list[str]) -> Schema:
    return _with({**_OBJECT, "properties": properties}, "required", required)


def _with(schema: Schema, keyword: str, value: Any) -> Schema:
    """Schemas are shared: one more keyword makes a new one; an empty value says nothing."""
    return {**schema, keyword: value} if value else schema


MAX_FUNCTION_BYTES = 64 * 1024
# Of a whole app: every replica of it says hello.
_MAX_APP_BYTES = 1024 * 1024
# Of the processor, so that a busy machine tells no less. The schema of a model may be slow to make.
_MAX_APP_SECONDS = 1.0

_ABC = "collections.abc."
_ITERATORS = frozenset(_ABC + name for name in ("Iterator", "Generator", "AsyncIterator", "AsyncGenerator"))
_LISTS = frozenset(
    ("builtins.list", *(_ABC + name for name in ("Sequence", "MutableSequence", "Collection", "Iterable")))
)
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
        hints = _function_hints(entry.plain)
        self._function_bytes = self._function_values = 0
        result, streams = self._result(entry, hints.get("return", Any))
        schemas = [self._parameter(entry, parameter, hints) for parameter in signature["parameters"]]
        is_fit = self._function_bytes <= min(MAX_FUNCTION_BYTES, self._bytes_left) and self._function_values <= min(
            SCHEMA_VALUES, self._values_left
        )
        if is_fit:
            self._bytes_left -= self._function_bytes
            self._values_left -= self._function_values
        for parameter, schema in zip(signature["parameters"], schemas):
            parameter["schema"] = schema if is_fit else {}
        return {**signature, "returns": result if is_fit else {}, "streams": streams}

    def _parameter(self, entry: Entry, parameter: dict[str, Any], hints: dict[str, Any]) -> Schema:
        name = parameter["name"]
        default = [entry.defaults[name]] if name in entry.defaults else []
        writer = SchemaWriter(entry.plain.__globals__, is_result=False)
        if not entry.takes_lists:
            return self._guard(lambda: writer.write(hints.get(name, Any), *default))
        parameter["annotation"] = None

        def make() -> Schema:
            item = _item_of(writer.resolve(hints.get(name, Any)))
            parameter["annotation"] = None if item is Any else annotation_text(item)
            return writer.write(item, *default)

        return self._guard(make)

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
            return writer.write(_without_signs(_item_of(writer.resolve(item))) if entry.takes_lists else item)

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


def _item_of(hint: Any) -> Any:
    """What a list of that hint is made of; anything, if it does not say or is no list."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        item = _item_of(args[0])
        return item if item is Any else typing.Annotated[(item, *hint.__metadata__)]
    is_list = class_name(origin) in _LISTS and len(args) == 1
    return args[0] if is_list or (origin is tuple and args[1:] == (Ellipsis,)) else Any


def _without_signs(hint: Any) -> Any:
    """What a call can get of an item: not an exception, which fails it, nor a sign, which says that it gets nothing."""
    if typing.get_origin(hint) not in _UNIONS:
        return hint
    args = typing.get_args(hint)
    kept = tuple(each for each in args if not (isinstance(each, type) and _is_sign(each)))
    return typing.Union[kept] if kept else Any


def _is_sign(kind: type) -> bool:
    return issubclass(kind, BaseException) or kind.__module__ == "millrace_worker.signs"


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


def _function_hints(function: FunctionType) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except BaseException:  # noqa: BLE001 - one that cannot be evaluated: then each is tried by itself
        pass
    try:
        return dict(function.__annotations__)
    except BaseException:  # noqa: BLE001 - where annotations are lazy, reading them evaluates them
        return {}
