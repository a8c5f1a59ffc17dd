"""Encodes Python values as compact JSON, with clear errors for what JSON cannot hold."""

from __future__ import annotations

from json import JSONEncoder
from json import encoder as _encoder
from typing import Any, Callable


class NotJson(Exception):
    """A value that JSON cannot hold; the text names its type and the path to it."""

    code = "result_not_json"


class TooLarge(NotJson):
    """A value whose JSON is larger than permitted."""

    code = "result_too_large"


def make_encoder(what: str = "result") -> Callable[[Any], bytes]:
    """An encoder for one thread: returns UTF-8 JSON, or raises NotJson, whose text calls the value that."""
    write = _make_writer()

    def encode(value: Any) -> bytes:
        nonlocal write
        try:
            return to_utf8(write(value))
        except (TypeError, ValueError, RecursionError, OverflowError) as error:
            # The old writer would take unfinished values for circular ones next time.
            write = _make_writer()
            why = _find_fault(value, what, []) or "the %s cannot be written as JSON: %s" % (what, error)
            raise NotJson(why) from None
        except BaseException:  # Of the code that converts a value: for the same reason, and the writer would keep it.
            write = _make_writer()
            raise

    return encode


def to_utf8(text: str) -> bytes:
    """UTF-8, with U+FFFD instead of lone surrogates."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _make_writer() -> Callable[[Any], str]:
    make = getattr(_encoder, "c_make_encoder", None)
    if make is None:
        return JSONEncoder(default=_convert, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode
    # JSONEncoder.encode makes this object for each call, which costs more than a small result itself.
    write = make({}, _convert, _encoder.encode_basestring, None, ":", ",", False, False, False)
    return lambda value: "".join(write(value, 0))


def _convert(value: Any) -> Any:
    kind = type(value)
    module = kind.__module__.partition(".")[0]
    if module == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(kind, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in kind.__dataclass_fields__}
    is_time = module == "datetime" or _inherits(kind, "datetime", ("datetime", "date", "time"))
    if is_time and hasattr(value, "isoformat"):
        return value.isoformat()
    if _inherits(kind, "uuid", ("UUID",)):
        return str(value)
    if _inherits(kind, "enum", ("Enum",)):
        return value.value
    if hasattr(kind, "__fields__") and callable(getattr(value, "dict", None)):
        return value.dict()  # pydantic 1
    raise TypeError("not JSON")


def _inherits(kind: type, module: str, names: tuple[str, ...]) -> bool:
    # By name: importing datetime, uuid and enum here would slow every start for apps without them.
    return any(base.__module__ == module and base.__name__ in names for base in kind.__mro__)


def _find_fault(value: Any, path: str, above: list[Any]) -> str | None:
    """Names the first value that the writer could not write."""
    if value is None or isinstance(value, (str, bool, int)):
        return None
    if isinstance(value, float):
        return None if value - value == 0 else "%s is %r, which JSON cannot hold" % (path, value)
    if any(value is seen for seen in above):
        return "%s is circular" % path
    if len(above) > 500:
        return "%s... is nested too deeply" % path[:100]
    inside = [*above, value]
    if isinstance(value, dict):
        for key, member in value.items():
            if not (key is None or isinstance(key, (str, int, float))):
                return "%s has a key of type %s, which JSON cannot hold" % (path, _type_name(key))
            fault = _find_fault(member, "%s.%s" % (path, key), inside)
            if fault:
                return fault
        return None
    if isinstance(value, (list, tuple)):
        for index, member in enumerate(value):
            fault = _find_fault(member, "%s[%d]" % (path, index), inside)
            if fault:
                return fault
        return None
    try:
        converted = _convert(value)
    except Exception:  # noqa: BLE001 - a user's own conversion may fail in any way
        return "%s is of type %s, which JSON cannot hold" % (path, _type_name(value))
    return _find_fault(converted, path, inside)


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__, kind.__qualname__)
