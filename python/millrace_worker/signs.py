"""What a batched generator, or a stepper, yields in place of a value."""

from __future__ import annotations


class Sign:
    """There is one of each: copies and pickles of it are itself."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return "millrace." + self._name

    def __reduce__(self) -> str:
        return self._name


#: Nothing for this call this time.
SKIP = Sign("SKIP")
#: This call is over.
END = Sign("END")
