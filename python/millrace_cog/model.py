"""Makes an app's `setup` and `run` of a class or function that was written for Cog."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import os
import sys
import typing
from collections.abc import AsyncIterator, Iterator
from types import FunctionType, ModuleType
from typing import Any, Callable

from millrace_worker import app as apps
from millrace_worker.bind import Unfit, is_async, unwrap
from millrace_worker.logs import CURRENT_RUN

from .files import Folder, Outputs
from .inputs import Field, Wrong, fields_of

#: Newer releases of Cog call the method `run`; older models may have one of that name for themselves.
_METHODS = ("predict", "run")

#: What `run` knows beside its parameters, by names that no input has.
_NAMES = {"call": "_millrace_call", "defaults": "_millrace_defaults"}
_CALL = "def run(%(head)s):\n    return %(call)s({%(given)s})"
_STREAM = "def run(%(head)s):\n    yield from %(call)s({%(given)s})"
_CALL_ASYNC = "async def run(%(head)s):\n    return await %(call)s({%(given)s})"
_STREAM_ASYNC = """async def run(%(head)s):
    chunks = %(call)s({%(given)s})
    try:
        async for chunk in chunks:
            yield chunk
    finally:
        await chunks.aclose()"""


def serve(file: str, name: str) -> tuple[FunctionType, FunctionType]:
    """The functions `setup` and `run` of the app, for a class or a function of a Python file in the working directory.
    Raises TypeError if it cannot be served, and whatever the import raises.
    """
    cog = _find_cog()
    target: Any = getattr(_load(file), name, None)
    if target is None:
        raise TypeError("cog.yaml names %s:%s, but %s has no %s" % (file, name, file, name))
    model = _Model(target, cog)
    return model.setup, model.run


def _find_cog() -> ModuleType:
    """The app's own `cog`, installed or in its folder; otherwise Millrace's, which `import cog` finds from then on."""
    spec = importlib.util.find_spec("cog")
    if spec is None or spec.origin is None:  # Without an origin it is a folder of that name.
        own = importlib.import_module(".cog", __package__)
        for name in ("cog", "cog.exceptions", "cog.types"):
            sys.modules[name] = own
        return own
    found = importlib.import_module("cog")
    print("[millrace] import cog finds the app's own: %s" % found.__file__, file=sys.stderr, flush=True)
    return found


def _load(file: str) -> ModuleType:
    """Imports the file under its plain name, as modules beside it may do too."""
    name = os.path.splitext(os.path.basename(file))[0]
    path = os.path.abspath(file)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("%s cannot be imported" % file)
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.insert(1, folder)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _Model:
    """A class with `setup` and `predict`, or a function."""

    def __init__(self, target: Any, cog: ModuleType) -> None:
        self._target = target
        #: What answers a call. Set when the replica is set up, if it is a method.
        self._predict: Callable[..., Any] = target
        is_class = isinstance(target, type)
        plain = unwrap(self._method(target) if is_class else target)
        if plain is None:
            raise TypeError("what cog.yaml names is neither a class nor a function: %r" % target)
        self._fields = fields_of(plain, 1 if is_class else 0, cog)
        self._has_files = any(field.has_files for field in self._fields)
        self._limit_bytes, self._chunk_bytes = apps.payload_limits()
        result = _result_hint(plain)
        is_generator = inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain)
        self._streams = is_generator or _is_iterator(result)
        self.setup = self._make_setup()
        self.run = self._make_run(is_async(plain), result)
        self.run.__doc__ = plain.__doc__

    def _method(self, kind: type) -> Any:
        for name in _METHODS:
            for base in kind.__mro__:
                # The base of Cog's own has methods of both names, which only say that they are missing.
                if name in vars(base) and base.__module__.partition(".")[0] != "cog":
                    self._name = name
                    return vars(base)[name]
        raise TypeError("%s has no method predict" % kind.__name__)

    def _begin(self) -> Any:
        """Makes the model in this replica; returns its `setup`, None if there is none."""
        if not isinstance(self._target, type):
            return None
        model: Any = self._target()
        self._predict = getattr(model, self._name)
        return getattr(model, "setup", None)

    def _make_setup(self) -> FunctionType:
        async def setup_async() -> None:
            prepare = self._begin()
            returned = prepare(**_weights(prepare)) if prepare else None
            if inspect.isawaitable(returned):
                await returned

        def setup() -> None:
            prepare = self._begin()
            if prepare:
                prepare(**_weights(prepare))

        own = unwrap(getattr(self._target, "setup", None)) if isinstance(self._target, type) else None
        return setup_async if own and is_async(own) else setup

    def _make_run(self, awaits: bool, result: Any) -> FunctionType:
        """A function with the model's inputs as its parameters: the harness tells callers about them."""
        call, code = {
            (False, False): (self._call, _CALL),
            (False, True): (self._stream, _STREAM),
            (True, False): (self._call_async, _CALL_ASYNC),
            (True, True): (self._stream_async, _STREAM_ASYNC),
        }[awaits, self._streams]
        default = "%s=" + _NAMES["defaults"] + "[%r]"
        parameters = [each.name if each.is_required else default % (each.name, each.name) for each in self._fields]
        head = "*, " + ", ".join(parameters) if parameters else ""
        given = ", ".join("%r: %s" % (each.name, each.name) for each in self._fields)
        names: dict[str, Any] = {
            "__name__": "main",
            _NAMES["call"]: call,
            _NAMES["defaults"]: {each.name: each.default for each in self._fields},
        }
        exec(compile(code % {"head": head, "given": given, **_NAMES}, __file__, "exec"), names)
        run: FunctionType = names["run"]
        run.__annotations__ = {each.name: typing.Annotated[(each.hint, each)] for each in self._fields}
        run.__annotations__["return"] = _told_result(result, awaits) if self._streams else result
        return run

    def _call(self, given: dict[str, Any]) -> Any:
        folder = Folder()
        try:
            value = self._predict(**self._inputs(given, folder))
            return self._outputs(self._limit_bytes)(value)
        finally:
            folder.remove()

    def _stream(self, given: dict[str, Any]) -> Iterator[Any]:
        folder = Folder()
        try:
            convert = self._outputs(self._chunk_bytes)
            chunks = self._predict(**self._inputs(given, folder))
            try:
                for chunk in chunks:
                    yield convert(chunk)
            finally:
                end = getattr(chunks, "close", None)
                if end:
                    end()
        finally:
            folder.remove()

    async def _call_async(self, given: dict[str, Any]) -> Any:
        folder = Folder()
        try:
            value = await self._predict(**await self._inputs_async(given, folder))
            return await _beside_loop(self._outputs(self._limit_bytes), value)
        finally:
            folder.remove()

    async def _stream_async(self, given: dict[str, Any]) -> AsyncIterator[Any]:
        folder = Folder()
        try:
            convert = self._outputs(self._chunk_bytes)
            chunks = self._predict(**await self._inputs_async(given, folder))
            if inspect.isawaitable(chunks):
                chunks = await chunks
            try:
                async for chunk in chunks:
                    yield await _beside_loop(convert, chunk)
            finally:
                end = getattr(chunks, "aclose", None)
                if end:
                    await end()
        finally:
            folder.remove()

    def _inputs(self, given: dict[str, Any], folder: Folder) -> dict[str, Any]:
        """The arguments as the model takes them; raises Unfit for those that do not fit."""
        values = _each(self._fields, lambda field: field.read(given[field.name]))
        # Only now: no file is fetched for a call that is refused.
        return _each(self._fields, lambda field: folder.fetch(values[field.name])) if self._has_files else values

    async def _inputs_async(self, given: dict[str, Any], folder: Folder) -> dict[str, Any]:
        if not self._has_files:
            return self._inputs(given, folder)
        return await asyncio.get_running_loop().run_in_executor(None, self._inputs, given, folder)

    def _outputs(self, limit_bytes: int) -> Callable[[Any], Any]:
        run_id = str(CURRENT_RUN.get())
        return lambda value: Outputs(limit_bytes, run_id).convert(value)


def _each(fields: list[Field], read: Callable[[Field], Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for field in fields:
        try:
            values[field.name] = read(field)
        except Wrong as error:
            problems[field.name] = str(error)
    if problems:
        raise Unfit(problems)
    return values


async def _beside_loop(convert: Callable[[Any], Any], value: Any) -> Any:
    """Files are read in a thread: other calls go on."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    return await asyncio.get_running_loop().run_in_executor(None, convert, value)


def _weights(setup: Callable[..., Any]) -> dict[str, Any]:
    """Models that can be trained take the weights of a training, and there are none."""
    return {"weights": None} if "weights" in inspect.signature(setup).parameters else {}


def _result_hint(function: FunctionType) -> Any:
    try:
        return typing.get_type_hints(function).get("return", Any)
    except Exception:  # noqa: BLE001 - names that only a type checker imports
        return Any


def _is_iterator(hint: Any) -> bool:
    return "Iterator" in _name_of(hint) or "Generator" in _name_of(hint)


def _told_result(hint: Any, is_async: bool) -> Any:
    """The hint of a stream, as the harness reads it: Cog has names of its own."""
    args = typing.get_args(hint)
    item = args[0] if args and _is_iterator(hint) else Any
    return AsyncIterator[item] if is_async else Iterator[item]


def _name_of(hint: Any) -> str:
    return getattr(typing.get_origin(hint) or hint, "__name__", "")
