"""Streams of tokens, one for each caller, from a decoder that Millrace drives step by step."""

import sys
from collections.abc import Collection
from typing import Any

from model import SEQUENCES, chosen_size
from model import Decoder as Model

# The thread that feeds the GPU must not wait 5 ms for its turn.
sys.setswitchinterval(0.0002)


class Decoder:
    capacity = SEQUENCES

    def __init__(self) -> None:
        self._steps = Model(chosen_size()).steps()
        self._free = list(range(SEQUENCES))
        self._places: dict[str, int] = {}
        self._left: dict[str, int] = {}

    def add(self, id: str, n: int) -> None:
        self._places[id] = self._free.pop()
        self._left[id] = n

    def remove(self, id: str) -> None:
        place = self._places.pop(id, None)
        if place is not None:
            self._free.append(place)
            del self._left[id]

    def step(self, paused: Collection[str]) -> dict[str, Any]:
        tokens = next(self._steps)
        chunks: dict[str, Any] = {id: str(tokens[place]) for id, place in self._places.items() if id not in paused}
        left = self._left
        ended = []
        for id in chunks:
            left[id] -= 1
            if left[id] < 0:
                ended.append(id)
        if ended:
            # Only Millrace has it; the loop alone gets none to its end.
            import millrace

            for id in ended:
                chunks[id] = millrace.END
                self.remove(id)
        return chunks
