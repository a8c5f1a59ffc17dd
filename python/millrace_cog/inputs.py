"""The inputs of a Cog model: what the signature of its `predict` says of them, and checks and conversions by that."""

from __future__ import annotations

import copy
import enum
import inspect
import io
import re
import types
import typing
from typing import Any, Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FunctionType, ModuleType

Schema = dict[str, Any]

_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
_FILE_SCHEMA: Schema = {"type": "string", "format": "uri"}
#: Longer ones say nothing that a reader of an error wants to read.
_SHOWN_CHARS = 200


class Wrong(Exception):
    """A value that does not fit; the text says what it must be."""


class Link:
    """The URL of a file that is still to be fetched."""

    __slots__ = ("url", "kind")

    def __init__(self, url: str, kind: Callable[[str], Any]) -> None:
        self.url = url
        #: Makes the value of the path of the file.
        self.kind = kind


class Kind(typing.NamedTuple):
    """What a value must be: a schema, and a function that converts it or raises Wrong."""

    schema: Schema
    read: Callable[[Any], Any]
    #: What is read may hold links.
    has_files: bool = False


class Field:
    """One input."""

    def __init__(self, name: str, hint: Any, given: Any, cog: ModuleType) -> None:
        facts = _Facts(given) if _is_facts(given) else None
        default = facts.default if facts else given
        kind = _kind_of(hint, cog)
        if kind is None:
            raise TypeError(
                "predict() has an input %s of type %s, which has no form in JSON here: use str, int, float, bool, dict,"
                " list, Literal, Path, File, Secret, or Optional of one" % (name, _type_text(hint))
            )
        if default is ... and _takes_none(hint):
            default = None
        self.name = name
        self.hint = hint
        self.default = default
        self.is_required = default is ...
        self.description = facts.description if facts else None
        kind = _bounded(kind, facts, name) if facts else kind
        self.has_files = kind.has_files
        self._kind = kind
        #: For the documents of the app, which take it from the hint of `run`.
        self.__json_schema__ = {
            **kind.schema,
            **({"description": self.description} if self.description else {}),
            **({"deprecated": True} if facts and facts.deprecated else {}),
        }

    def read(self, value: Any) -> Any:
        """The value for `predict`; raises Wrong. A default of the model's own is not checked."""
        if value is self.default:
            # A model may write to what it gets, and a file's default is a URL like any other.
            is_link = self.has_files and isinstance(value, str)
            return self._kind.read(value) if is_link else copy.copy(value)
        if value is None and self.default is None:
            return None
        return self._kind.read(value)


def fields_of(function: FunctionType, skipped: int, cog: ModuleType) -> list[Field]:
    """The inputs of a `predict`, without its first `skipped` parameters; raises TypeError if it has one that callers
    cannot give.
    """
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # noqa: BLE001 - names that only a type checker imports
        hints = dict(function.__annotations__)
    fields: list[Field] = []
    for name, parameter in list(inspect.signature(function).parameters.items())[skipped:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError("predict() has a parameter %s, but its inputs have to be named one by one" % parameter)
        if name == "run_id":
            raise TypeError("predict() has an input run_id, which is the name of what the service fills in: rename it")
        given = ... if parameter.default is parameter.empty else parameter.default
        fields.append(Field(name, hints.get(name, Any), given, cog))
    return fields


class _Facts:
    """What `Input` was told: by this release's, by one of Cog's own, or by the pydantic that older ones are made of."""

    def __init__(self, given: Any) -> None:
        self._sources = [given, *(getattr(given, "metadata", None) or ())]
        for extra in (getattr(given, "json_schema_extra", None), getattr(given, "extra", None)):
            if isinstance(extra, dict):
                self._sources.append(types.SimpleNamespace(**extra))
        default = given.default
        is_missing = type(default).__name__ in ("PydanticUndefinedType", "UndefinedType", "_MISSING_TYPE")
        self.default = ... if is_missing else default
        self.description: str | None = self.find("description")
        self.deprecated = self.find("deprecated") is True

    def find(self, *names: str) -> Any:
        for source in self._sources:
            for name in names:
                found = getattr(source, name, None)
                if found is not None:
                    return found
        return None


def _is_facts(given: Any) -> bool:
    return hasattr(given, "default") and hasattr(given, "description")


def _kind_of(hint: Any, cog: ModuleType) -> Kind | None:
    """None for a type that callers have no way to give."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return _ANYTHING
    if hint is None or hint is type(None):
        return Kind({"type": "null"}, _null)
    if origin in _UNIONS:
        return _union([_kind_of(each, cog) for each in args])
    if origin is typing.Literal:
        return _choice(list(args))
    if origin is list or hint is list:
        return _list(_kind_of(args[0], cog) if args else _ANYTHING)
    if origin is dict:
        return _SIMPLE[dict]
    if not isinstance(hint, type):
        return None
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if issubclass(hint, enum.Enum):
        return _member(hint)
    if hint is getattr(cog, "Secret", None):
        return _secret(hint)
    if issubclass(hint, io.IOBase):
        return Kind(_FILE_SCHEMA, _link_to(_opened), True)
    if hasattr(hint, "__fspath__"):
        made: Any = getattr(cog, "Path", hint)
        return Kind(_FILE_SCHEMA, _link_to(made), True)
    return None


def _exactly(kind: type, expected: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise Wrong("must be " + expected)
        return value

    return read


def _integer(value: Any) -> int:
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not int:
        raise Wrong("must be an integer")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise Wrong("must be a number")
    try:
        return float(value)
    except OverflowError:
        raise Wrong("must be a number of at most 308 digits") from None


def _null(value: Any) -> None:
    if value is not None:
        raise Wrong("must be null")


_SIMPLE: dict[type, Kind] = {
    str: Kind({"type": "string"}, _exactly(str, "a string")),
    int: Kind({"type": "integer"}, _integer),
    float: Kind({"type": "number"}, _number),
    bool: Kind({"type": "boolean"}, _exactly(bool, "true or false")),
    dict: Kind({"type": "object"}, _exactly(dict, "an object")),
}


def _as_it_is(value: Any) -> Any:
    return value


_ANYTHING = Kind({}, _as_it_is)


def _member(kind: type[enum.Enum]) -> Kind:
    members = {member.value: member for member in kind}
    choice = _choice(list(members))

    def read(value: Any) -> enum.Enum:
        return members[choice.read(value)]

    return Kind(choice.schema, read)


def _secret(kind: Callable[[str], Any]) -> Kind:
    text = _SIMPLE[str].read

    def read(value: Any) -> Any:
        return kind(text(value))

    return Kind({"type": "string", "format": "password", "writeOnly": True}, read)


def _opened(path: str) -> Any:
    return open(path, "rb")


def _list(item: Kind | None) -> Kind | None:
    if item is None:
        return None

    def read(value: Any) -> list[Any]:
        if type(value) is not list:
            raise Wrong("must be a list")
        items: list[Any] = []
        for index, each in enumerate(value):
            try:
                items.append(item.read(each))
            except Wrong as error:
                raise Wrong("has an item, number %d, that %s" % (index + 1, error)) from None
        return items

    schema: Schema = {"type": "array", **({"items": item.schema} if item.schema else {})}
    return Kind(schema, read, item.has_files)


def _union(kinds: list[Kind | None]) -> Kind | None:
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return None

    def read(value: Any) -> Any:
        wishes: list[str] = []
        for kind in known:
            try:
                return kind.read(value)
            except Wrong as error:
                if kind.read is not _null:
                    wishes.append(str(error))
        raise Wrong(", or ".join(wishes))

    return Kind({"anyOf": [kind.schema for kind in known]}, read, any(kind.has_files for kind in known))


def _choice(values: list[Any]) -> Kind:
    wish = "must be one of " + ", ".join(map(_shown, values))

    def read(value: Any) -> Any:
        for each in values:
            if each == value and isinstance(each, bool) == isinstance(value, bool):
                return each
        raise Wrong(wish)

    return Kind({"enum": values}, read)


def _link_to(kind: Callable[[str], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Link:
        if type(value) is not str or not re.match(r"(?:https?://|data:)", value, re.IGNORECASE):
            raise Wrong("must be the URL of a file, beginning with https://, http:// or data:")
        return Link(value, kind)

    return read


def _bounded(kind: Kind, facts: _Facts, name: str) -> Kind:
    """The same with the bounds of its `Input`, which are those of each item if it is a list."""
    ge, le = facts.find("ge"), facts.find("le")
    least, most = facts.find("min_length"), facts.find("max_length")
    pattern, choices = facts.find("regex", "pattern"), facts.find("choices", "enum")
    keywords: Schema = {"minimum": ge, "maximum": le, "minLength": least, "maxLength": most, "pattern": pattern}
    keywords["enum"] = list(choices) if choices else None
    keywords = {keyword: value for keyword, value in keywords.items() if value is not None}
    if not keywords:
        return kind
    try:
        matches = re.compile(pattern).search if pattern is not None else None
    except re.error as error:
        raise TypeError("the regex of the input %s is none: %s" % (name, error)) from None
    choice = _choice(keywords["enum"]).read if choices else None

    def check(value: Any) -> None:
        if isinstance(value, list):
            for each in value:
                check(each)
        elif isinstance(value, str):
            if least is not None and len(value) < least:
                raise Wrong("must have at least %d characters" % least)
            if most is not None and len(value) > most:
                raise Wrong("must have at most %d characters" % most)
            if matches and not matches(value):
                raise Wrong("must match the regular expression " + _cut(str(pattern)))
        elif isinstance(value, (int, float)):
            if ge is not None and value < ge:
                raise Wrong("must be at least %s" % ge)
            if le is not None and value > le:
                raise Wrong("must be at most %s" % le)
        if choice and value is not None and not isinstance(value, list):
            choice(value)

    def read(value: Any) -> Any:
        converted = kind.read(value)
        check(converted)
        return converted

    return Kind(_with(kind.schema, keywords), read, kind.has_files)


def _with(schema: Schema, keywords: Schema) -> Schema:
    """A schema with further keywords, where its values are single ones."""
    if schema.get("type") == "array":
        return {**schema, "items": _with(schema.get("items", {}), keywords)}
    if "anyOf" in schema:
        return {"anyOf": [each if each == {"type": "null"} else _with(each, keywords) for each in schema["anyOf"]]}
    return {**schema, **keywords}


def _takes_none(hint: Any) -> bool:
    return typing.get_origin(hint) in _UNIONS and type(None) in typing.get_args(hint)


def _type_text(hint: Any) -> str:
    return _cut(hint.__name__ if isinstance(hint, type) else str(hint))


def _shown(value: Any) -> str:
    return _cut('"%s"' % value if isinstance(value, str) else repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"
