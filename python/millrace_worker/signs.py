"""What generators and steppers yield instead of a chunk: `SKIP` and `END`, each of which exists once."""

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


#: Nothing for this call, this time.
SKIP = Sign("SKIP")
#: This call is over.
END = Sign("END")
