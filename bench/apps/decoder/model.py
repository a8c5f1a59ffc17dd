"""A decoder of about a billion parameters with random weights: one step makes a token for each of 256 sequences.

Run by itself it decodes as fast as it can for some seconds and prints tokens per second: what a service must not slow.
"""

import sys
import time
from collections.abc import Iterator

import torch
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

SEQUENCES = 256
_LAYERS, _WIDTH, _HEADS, _INNER, _WORDS, _CONTEXT = 16, 2048, 16, 8192, 32_000, 640
#: Steps that the GPU is given ahead, so that it does not wait for Python.
_AHEAD = 3


class Decoder:
    """All sequences at once, as a graph that the GPU runs without being told every kernel."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.parameters = 0
        made = self._make
        self._words = made(_WORDS, _WIDTH)
        self._layers = [
            (made(3 * _WIDTH, _WIDTH), made(_WIDTH, _WIDTH), made(_INNER, _WIDTH), made(_WIDTH, _INNER))
            for _ in range(_LAYERS)
        ]
        shape = (SEQUENCES, _HEADS, _CONTEXT, _WIDTH // _HEADS)
        self._caches = [torch.zeros((2, *shape), dtype=torch.bfloat16, device="cuda") for _ in range(_LAYERS)]
        self._tokens = torch.arange(SEQUENCES, device="cuda")
        self._slots = [torch.empty(SEQUENCES, dtype=torch.int64, pin_memory=True) for _ in range(_AHEAD)]
        with torch.no_grad():
            self._decode()
            torch.cuda.synchronize()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._decode()

    def steps(self) -> Iterator["list[int]"]:
        """The tokens of each step, for all sequences."""
        events = [torch.cuda.Event() for _ in range(_AHEAD)]
        begun = 0
        for done in range(sys.maxsize):
            while begun < done + _AHEAD:
                self._graph.replay()
                self._slots[begun % _AHEAD].copy_(self._tokens, non_blocking=True)
                events[begun % _AHEAD].record()
                begun += 1
            events[done % _AHEAD].synchronize()
            yield self._slots[done % _AHEAD].tolist()

    def _make(self, *shape: int) -> torch.Tensor:
        self.parameters += shape[0] * shape[1]
        return torch.randn(*shape, dtype=torch.bfloat16, device="cuda") * 0.02

    def _decode(self) -> None:
        state = self._words[self._tokens]
        for (attend, merge, widen, narrow), cache in zip(self._layers, self._caches):
            heads = linear(layer_norm(state, (_WIDTH,)), attend).view(SEQUENCES, 3, _HEADS, 1, -1)
            query, key, value = heads[:, 0], heads[:, 1], heads[:, 2]
            cache[0, :, :, :1], cache[1, :, :, :1] = key, value
            seen = scaled_dot_product_attention(query, cache[0], cache[1])
            state = state + linear(seen.reshape(SEQUENCES, _WIDTH), merge)
            state = state + linear(gelu(linear(layer_norm(state, (_WIDTH,)), widen)), narrow)
        self._tokens.copy_(linear(layer_norm(state, (_WIDTH,)), self._words).argmax(-1))


def _main(seconds: float) -> None:
    steps = Decoder().steps()
    for _ in range(20):
        next(steps)
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        count += len(next(steps))
    print(count / (time.perf_counter() - began))


if __name__ == "__main__":
    _main(float(sys.argv[1]))
