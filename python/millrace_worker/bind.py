"""Finds the callable functions of `main.py`, and matches arguments to their parameters."""

from __future__ import annotations

from types import CodeType, FunctionType, ModuleType
from typing import Any, Callable

from .frames import MISFITS, NAME_CHARS, NOTE_CHARS, short_name

# Flags of code objects. Read directly: importing `inspect` would add 10 ms to every start.
_VARARGS, _VARKEYWORDS, _GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x04, 0x08, 0x20, 0x80, 0x200


#: The function that a replica calls itself, once, before its first call; callers cannot.
SETUP = "setup"


#: So many arguments that do not fit are told of, and so much of what each must be: all of it fits into one frame.
_UNFITS = 50
_UNFIT_CHARS = 1000


class Unfit(Exception):
    """Raised by a function of Millrace's own that stands for an app's: its arguments do not fit. The call is answered
    like one with missing or unknown arguments.
    """

    def __init__(self, problems: dict[str, str]) -> None:
        """What each argument must be, by its name."""
        super().__init__("; ".join("%s %s" % item for item in problems.items()))
        self.problems = problems

    def describe(self) -> dict[str, Any]:
        """The payload of a FAILED frame."""
        details = [
            {"field": short_name(name), "problem": "invalid", "message": text[:_UNFIT_CHARS]}
            for name, text in list(self.problems.items())[:_UNFITS]
        ]
        return {"kind": "misfit", "details": details, "more": max(0, len(self.problems) - _UNFITS)}


class Entry:
    """A callable function."""

    def __init__(
        self, name: str, function: Callable[..., Any], plain: FunctionType, ignore_extra: bool, skipped: int = 0
    ) -> None:
        """`plain` is the innermost function that `function` wraps, or itself. Its first `skipped` parameters are the
        harness's.
        """
        code = plain.__code__
        names = self.names = _named_parameters(code)[skipped:]
        self.name = name
        self.function = function
        self.plain = plain
        values = plain.__defaults__ or ()
        last = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
        defaults = {**dict(zip(last, values)), **(plain.__kwdefaults__ or {})}
        self.defaults = {name: defaults[name] for name in names if name in defaults}
        self.wants_run_id = "run_id" in names
        asked = [name for name in names if name != "run_id"]
        self.required: frozenset[str] = frozenset(name for name in asked if name not in self.defaults)
        self.accepted: frozenset[str] = frozenset(asked)
        self.positional = names[: max(0, code.co_posonlyargcount - skipped)]
        rest_index = skipped + len(names) + bool(code.co_flags & _VARARGS)
        self.rest_name = code.co_varnames[rest_index] if code.co_flags & _VARKEYWORDS else None
        self.ignore_extra = ignore_extra
        self.is_async = is_async(plain)
        self.is_generator = bool(code.co_flags & (_GENERATOR | _ASYNC_GENERATOR))
        #: It runs several calls at a time: each parameter is a list, and so is the result.
        self.takes_lists = False
        #: After it has raised, halves of the batch are tried.
        self.splits = True

    def take_lists(self, key: str | None, size: str | None, on_error: str) -> None:
        """Makes it a function of batches, by the rules of its table. Raises TypeError if they do not fit it."""
        for rule, parameter in (("key", key), ("size", size)):
            if parameter is not None and parameter not in self.accepted:
                raise TypeError(
                    '[batching.%s] has %s = "%s", but %s() in main.py has no parameter of that name'
                    % (self.name, rule, parameter, self.name)
                )
        if self.rest_name is not None:
            raise TypeError(
                "[batching.%s]: %s() in main.py cannot take lists of any arguments: name them in place of **%s"
                % (self.name, self.name, self.rest_name)
            )
        self.takes_lists = True
        self.splits = on_error == "split"

    def require_setup(self) -> None:
        """Raises TypeError if this cannot be `setup`, which is called once, without arguments."""
        missing = [name for name in self.names if name not in self.defaults]
        if missing:
            raise TypeError(
                "setup() in main.py is called without arguments, but requires %s: remove the parameters or give them"
                " defaults; if callers should call the function, rename it" % ", ".join(missing)
            )
        if self.is_generator:
            raise TypeError(
                "setup() in main.py is a generator, which would never run: remove its yield; if callers should call"
                " the function, rename it"
            )

    def misfits(self, arguments: dict[str, Any]) -> tuple[list[dict[str, str]], int]:
        """Missing and unknown arguments, and how many more there are; drops unknown ones if the app ignores them."""
        given = arguments.keys()
        missing = sorted(self.required - given)
        extra: list[str] = []
        if self.rest_name is None:
            extra = [name for name in given if name not in self.accepted]
            if self.ignore_extra:
                for name in extra:
                    del arguments[name]
                extra = []
        elif self.wants_run_id and "run_id" in given:
            extra = ["run_id"]
        found = [{"field": name, "problem": "missing"} for name in missing]
        # Only the first ones: a caller may send a million.
        found += [{"field": name, "problem": "unknown"} for name in sorted(map(short_name, extra[:MISFITS]))]
        return found[:MISFITS], max(0, len(missing) + len(extra) - MISFITS)

    def call(self, arguments: dict[str, Any]) -> Any:
        if not self.positional:
            return self.function(**arguments)
        args = self.take_positional(arguments)
        return self.function(*args, **arguments)

    def take_positional(self, arguments: dict[str, Any]) -> list[Any]:
        """Takes the arguments of parameters that have no keyword out of the others."""
        last = max((index for index, name in enumerate(self.positional) if name in arguments), default=-1)
        # Positions cannot be skipped, so a missing argument before a given one is passed as its default.
        return [arguments.pop(name, self.defaults.get(name)) for name in self.positional[: last + 1]]

    def describe(self) -> dict[str, Any]:
        """The signature as the service keeps it."""
        names = [name for name in self.names if name != "run_id"]
        parameters = [self._describe_parameter(name, "named") for name in names]
        if self.rest_name is not None:
            parameters.append(self._describe_parameter(self.rest_name, "rest"))
        return {
            "name": self.name,
            "parameters": parameters,
            "is_async": self.is_async,
            "is_generator": self.is_generator,
            "wants_run_id": self.wants_run_id,
            "doc": shown_text(self.function.__doc__),
            **({"batch": "list"} if self.takes_lists else {}),
        }

    def _describe_parameter(self, name: str, kind: str) -> dict[str, Any]:
        return {
            "name": name,
            "kind": kind,
            "required": kind == "named" and name in self.required,
            "annotation": _annotation(self.plain, name),
            "default": _shown(self.defaults[name]) if name in self.defaults else None,
        }


def find_entries(module: ModuleType, ignore_extra: bool) -> dict[str, Entry]:
    """Functions that the module defines, and callables in its `__all__`; never an imported name or a class. `setup` is
    among them.
    """
    public = getattr(module, "__all__", None)
    exported = {name for name in public if isinstance(name, str)} if isinstance(public, (list, tuple)) else set()
    entries: dict[str, Entry] = {}
    for name, value in list(vars(module).items()):
        # No URL could have a longer name.
        if name.startswith("_") or isinstance(value, type) or not callable(value) or len(name) > NAME_CHARS:
            continue
        # An instance with __call__ has the __module__ of its class, but is no function of main.py. Imported proxies are
        # not asked for other attributes: they may import something then, or raise.
        own = getattr(value, "__module__", None) == module.__name__
        own = own and (isinstance(value, FunctionType) or hasattr(value, "__wrapped__"))
        plain = unwrap(value) if own or name in exported else None
        if plain is not None:
            entries[name] = Entry(name, value, plain, ignore_extra)
    return entries


def unwrap(value: Any) -> FunctionType | None:
    """The innermost function that a decorated one wraps; None if there is none."""
    for _ in range(100):
        inner = getattr(value, "__wrapped__", None)
        if inner is None:
            break
        value = inner
    return value if isinstance(value, FunctionType) else None


def is_async(function: FunctionType) -> bool:
    return bool(function.__code__.co_flags & (_COROUTINE | _ASYNC_GENERATOR))


def _named_parameters(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _annotation(function: FunctionType, name: str) -> str | None:
    try:
        return annotation_text(function.__annotations__.get(name))
    except BaseException:  # noqa: BLE001 - lazy annotations may raise anything
        return None


def annotation_text(annotation: Any) -> str | None:
    try:
        if annotation is None or isinstance(annotation, str):
            return shown_text(annotation)
        if hasattr(annotation, "__metadata__"):
            return annotation_text(annotation.__origin__)
        # Before Python 3.11 list[int] is an instance of type as well.
        is_class = isinstance(annotation, type) and not hasattr(annotation, "__args__")
        return shown_text(annotation.__name__ if is_class else str(annotation))
    except BaseException:  # noqa: BLE001 - a user's __str__ may raise anything
        return None


def _shown(value: Any) -> str | None:
    try:
        return shown_text(repr(value))
    except BaseException:  # noqa: BLE001 - a user's __repr__ may raise anything
        return None


def shown_text(text: str | None) -> str | None:
    """A note about the app, as long as the service takes it."""
    return text[:NOTE_CHARS] if isinstance(text, str) else None
