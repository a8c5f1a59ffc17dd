"""What an app tells the harness: `SKIP` and `END`, which generators and steppers yield instead of a chunk and each of
which exists once, and `NoRetry`.
"""

from __future__ import annotations


class Sign:
    """Compared by identity. Copies of it, and what is unpickled in the same process, are itself."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return "millrace." + self._name

    def __reduce__(self) -> str:
        return self._name


class NoRetry(Exception):
    """Raise it to end an async run without a further attempt."""


#: Nothing for this call, this time.
SKIP = Sign("SKIP")
#: This call is over.
END = Sign("END")
