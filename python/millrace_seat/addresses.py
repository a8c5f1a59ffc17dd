"""Where services are, in the order in which they are tried."""

from __future__ import annotations


class Addresses:
    """Each in its turn, again and again."""

    def __init__(self, known: list[tuple[str, int]]) -> None:
        self._known = list(known)
        self._next = 0

    def take(self) -> tuple[str, int]:
        address = self._known[self._next % len(self._known)]
        self._next += 1
        return address

    def learn(self, known: list[tuple[str, int]]) -> None:
        """Those are all, unless there are none."""
        self._known = known or self._known

    def prefer(self, address: tuple[str, int]) -> None:
        """The next one."""
        if address not in self._known:
            self._known.append(address)
        self._next = self._known.index(address)
