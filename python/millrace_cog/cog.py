"""What `import cog` finds in the app of a Cog model that brings no `cog` of its own."""

from __future__ import annotations

import io
import pathlib
from collections.abc import AsyncIterator as AsyncIterator
from copy import copy
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from millrace_worker.current import RunCancelled

__all__ = [
    "AsyncConcatenateIterator",
    "AsyncIterator",
    "BaseModel",
    "BasePredictor",
    "BaseRunner",
    "CancelationException",
    "ConcatenateIterator",
    "ExperimentalFeatureWarning",
    "File",
    "Input",
    "Path",
    "Secret",
    "current_scope",
    "emit_metric",
]

Item = TypeVar("Item")

#: A cancel raises it in `def predict`; who catches it must raise it again.
CancelationException = RunCancelled


class BaseRunner:
    """The base of a model."""

    def setup(self, *args: Any, **kwargs: Any) -> Any:
        """Called once in each replica."""

    def record_metric(self, key: str, value: Any, mode: str = "replace") -> None:
        """Accepted, and without effect: an answer has no place for metrics."""

    @property
    def scope(self) -> Scope:
        return current_scope()


BasePredictor = BaseRunner


class Scope:
    """Takes metrics, which have no effect."""

    def __init__(self) -> None:
        self.metrics: dict[str, Any] = {}

    def record_metric(self, key: str, value: Any, mode: str = "replace") -> None:
        """Accepted, and without effect."""


def current_scope() -> Scope:
    return Scope()


def emit_metric(name: str, value: Any) -> None:
    """Accepted, and without effect."""


class ExperimentalFeatureWarning(FutureWarning):
    """For `warnings.filterwarnings` of models that silence it."""


@dataclass(frozen=True)
class InputFacts:
    """What a model says of one input."""

    default: Any
    description: str | None
    ge: float | None
    le: float | None
    min_length: int | None
    max_length: int | None
    regex: str | None
    choices: list[Any] | None
    deprecated: bool | None


def Input(
    default: Any = ...,
    description: str | None = None,
    ge: float | None = None,
    le: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    regex: str | None = None,
    choices: list[Any] | None = None,
    deprecated: bool | None = None,
) -> Any:
    """The default of a parameter of `predict`, with what its values must be. Without `default` it is required."""
    return InputFacts(default, description, ge, le, min_length, max_length, regex, choices, deprecated)


class Path(pathlib.PosixPath):
    """A file, as input or output; callers see a URL."""

    __module__ = "cog"
    __json_schema__: ClassVar[dict[str, Any]] = {"type": "string", "format": "uri"}


class File(io.IOBase):
    """An open file, as input or output; callers see a URL."""

    __module__ = "cog"
    __json_schema__: ClassVar[dict[str, Any]] = {"type": "string", "format": "uri"}


class Secret:
    """A text that is not printed."""

    __module__ = "cog"
    __json_schema__: ClassVar[dict[str, Any]] = {"type": "string", "format": "password", "writeOnly": True}

    def __init__(self, secret_value: str) -> None:
        self._secret_value = secret_value

    def get_secret_value(self) -> str:
        return self._secret_value

    def __repr__(self) -> str:
        return "Secret(%r)" % str(self)

    def __str__(self) -> str:
        return "**********" if self._secret_value else ""

    def __len__(self) -> int:
        return len(self._secret_value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._secret_value == self._secret_value

    def __hash__(self) -> int:
        return hash(self._secret_value)


class ConcatenateIterator(Generic[Item]):
    """The hint of a generator whose texts belong together."""


class AsyncConcatenateIterator(Generic[Item]):
    """The same of an async generator."""


class BaseModel:
    """The base of an output with several values, given by name. An Optional one may be left out."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__()
        for name, value in list(vars(cls).items()):
            if not name.startswith("__") and isinstance(value, (list, dict, set)):  # Which a dataclass would refuse.
                setattr(cls, name, field(default_factory=partial(copy, value)))
        dataclass(init=False)(cls)

    def __init__(self, **values: Any) -> None:
        kind = type(self)
        missing: list[str] = []
        for each in fields(kind):  # pyright: ignore[reportArgumentType] - each subclass is made a dataclass
            if each.name in values:
                setattr(self, each.name, values.pop(each.name))
            elif each.default is not MISSING:
                setattr(self, each.name, each.default)
            elif each.default_factory is not MISSING:
                setattr(self, each.name, each.default_factory())
            elif _takes_none(get_type_hints(kind).get(each.name)):
                setattr(self, each.name, None)
            else:
                missing.append(each.name)
        if missing or values:
            wrong = ["lacks %s" % name for name in missing] + ["has no %s" % name for name in values]
            raise TypeError("%s %s" % (kind.__name__, ", ".join(wrong)))


def _takes_none(hint: Any) -> bool:
    kind = get_origin(hint)
    return (kind is Union or type(hint).__name__ == "UnionType") and type(None) in get_args(hint)
