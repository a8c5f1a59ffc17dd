"""Decoders with random weights: one step makes a token for each of 256 sequences."""

import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

SEQUENCES = 256
#: Steps that the GPU is given ahead, so that it does not wait for Python.
AHEAD = 3
_WORDS = 32_000


class Size(NamedTuple):
    layers: int
    width: int
    heads: int
    context: int


SIZES = {
    #: About a billion parameters.
    "large": Size(layers=16, width=2048, heads=16, context=640),
    #: About 150,000 tokens per second on an H200. The rate falls as the number of layers grows.
    "small": Size(layers=12, width=1024, heads=16, context=256),
    #: To try the benchmark without a GPU.
    "tiny": Size(layers=1, width=32, heads=2, context=8),
}


def chosen_size() -> Size:
    """The size that the file `size` beside this one names."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "size"), encoding="ascii") as file:
        return SIZES[file.read().strip()]


class Decoder:
    """All sequences at once, as a graph that the GPU runs without being told every kernel."""

    def __init__(self, size: Size) -> None:
        torch.manual_seed(0)
        self.parameters = 0
        self._size = size
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        made = self._make
        layers, width, heads, context = size
        self._words = made(_WORDS, width)
        self._layers = [
            (made(3 * width, width), made(width, width), made(4 * width, width), made(width, 4 * width))
            for _ in range(layers)
        ]
        shape = (SEQUENCES, heads, context, width // heads)
        self._caches = [torch.zeros((2, *shape), dtype=torch.bfloat16, device=self._device) for _ in range(layers)]
        self._tokens = torch.arange(SEQUENCES, device=self._device)
        if self._device == "cpu":
            return
        self._slots = [torch.empty(SEQUENCES, dtype=torch.int64, pin_memory=True) for _ in range(AHEAD)]
        with torch.no_grad():
            self._decode()
            torch.cuda.synchronize()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._decode()

    def steps(self) -> Iterator["list[int]"]:
        """The tokens of each step, for all sequences. While one is yielded, the next `AHEAD - 1` have begun."""
        while self._device == "cpu":
            with torch.no_grad():
                self._decode()
            yield self._tokens.tolist()
        events = [torch.cuda.Event() for _ in range(AHEAD)]
        begun = 0
        for done in range(sys.maxsize):
            while begun < done + AHEAD:
                self._graph.replay()
                self._slots[begun % AHEAD].copy_(self._tokens, non_blocking=True)
                events[begun % AHEAD].record()
                begun += 1
            events[done % AHEAD].synchronize()
            yield self._slots[done % AHEAD].tolist()

    def _make(self, *shape: int) -> torch.Tensor:
        self.parameters += shape[0] * shape[1]
        return torch.randn(*shape, dtype=torch.bfloat16, device=self._device) * 0.02

    def _decode(self) -> None:
        width = self._size.width
        state = self._words[self._tokens]
        for (attend, merge, widen, narrow), cache in zip(self._layers, self._caches):
            heads = linear(layer_norm(state, (width,)), attend).view(SEQUENCES, 3, self._size.heads, 1, -1)
            query, key, value = heads[:, 0], heads[:, 1], heads[:, 2]
            cache[0, :, :, :1], cache[1, :, :, :1] = key, value
            seen = scaled_dot_product_attention(query, cache[0], cache[1])
            state = state + linear(seen.reshape(SEQUENCES, width), merge)
            state = state + linear(gelu(linear(layer_norm(state, (width,)), widen)), narrow)
        self._tokens.copy_(linear(layer_norm(state, (width,)), self._words).argmax(-1))
