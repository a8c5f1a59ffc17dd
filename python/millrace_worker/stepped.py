"""Finds the classes of `main.py` that the app's configuration names as steppers, and describes their functions."""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

from .bind import Entry, is_async, shown_text, unwrap
from .frames import MISFITS, STEPPER_CALLS

#: A stepper's own parameters of `add`: `self` and `id`.
_OWN_PARAMETERS = 2


class SteppedEntry(Entry):
    """A function whose calls a stepper runs. Its parameters are those of `add`, without `self` and `id`."""

    def __init__(self, name: str, kind: type, add: FunctionType, ignore_extra: bool) -> None:
        super().__init__(name, add, add, ignore_extra, _OWN_PARAMETERS)
        self.kind = kind
        self.is_async = False
        self.is_generator = True

    def add(self, stepper: Any, run_id: str, arguments: dict[str, Any]) -> None:
        """Has the stepper take a call."""
        args = self.take_positional(arguments) if self.positional else ()
        stepper.add(run_id, *args, **arguments)

    def misfits(self, arguments: dict[str, Any]) -> tuple[list[dict[str, str]], int]:
        found, more = super().misfits(arguments)
        if self.rest_name is not None:  # Which would take them, but the parameters have values already.
            own = self.plain.__code__.co_varnames[self.plain.__code__.co_posonlyargcount : _OWN_PARAMETERS]
            found += [{"field": name, "problem": "unknown"} for name in sorted(own) if name in arguments]
        return found[:MISFITS], more

    def describe(self) -> dict[str, Any]:
        described = super().describe()
        doc = described["doc"] or self.kind.__doc__
        return {**described, "doc": shown_text(doc), "batch": "stepper"}


def find_stepper(module: ModuleType, name: str, class_name: str, ignore_extra: bool) -> SteppedEntry:
    """The class that runs the calls of a function. Raises TypeError if it cannot."""
    setting = "batching.%s.stepper" % name
    if callable(getattr(module, name, None)):
        raise TypeError(
            "%s says that calls of %s go to the class %s, but main.py defines %s too: remove one of the two"
            % (setting, name, class_name, name)
        )
    kind = getattr(module, class_name, None)
    if not isinstance(kind, type):
        raise TypeError(
            "%s names the class %s, which %s"
            % (setting, class_name, "main.py does not have" if kind is None else "is no class in main.py")
        )
    add = _method(kind, "add", "(self, id, …)", setting)
    for method, parameters in (("remove", "(self, id)"), ("step", "(self, paused)")):
        _method(kind, method, parameters, setting)
    plain = unwrap(add)
    if plain is None or plain.__code__.co_argcount < _OWN_PARAMETERS:
        raise TypeError(
            "%s.add in main.py has to be a method with the parameters self and id (%s)" % (class_name, setting)
        )
    return SteppedEntry(name, kind, plain, ignore_extra)


def _method(kind: type, name: str, parameters: str, setting: str) -> Any:
    # As the class has it, since a static method is a function as well when it is asked for.
    method = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    if not callable(method) or isinstance(method, (staticmethod, classmethod)):
        raise TypeError("%s in main.py needs a method %s%s (%s)" % (kind.__name__, name, parameters, setting))
    plain = unwrap(method)
    if plain is not None and is_async(plain):
        raise TypeError("%s.%s in main.py has to be a def, not an async def (%s)" % (kind.__name__, name, setting))
    return method


def read_capacity(app: Any, entry: SteppedEntry) -> int:
    """How many calls a stepper takes at a time. Raises TypeError if it does not say."""
    kind = entry.kind.__name__
    if not hasattr(app, "capacity"):
        raise TypeError("%s in main.py needs an attribute capacity: how many calls it takes at a time" % kind)
    capacity = app.capacity
    if isinstance(capacity, bool) or not isinstance(capacity, int) or not 1 <= capacity <= STEPPER_CALLS:
        raise TypeError(
            "%s.capacity in main.py has to be an integer from 1 to %d, but is %.100r" % (kind, STEPPER_CALLS, capacity)
        )
    return int(capacity)
