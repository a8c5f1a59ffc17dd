"""An encoder of texts with random weights: each byte is a token."""

import base64
import os
import threading
from typing import NamedTuple

import torch
from torch.nn.functional import gelu, layer_norm, linear, normalize, scaled_dot_product_attention

_BYTES = 256


class Size(NamedTuple):
    layers: int
    width: int
    heads: int
    #: Of each text; longer ones are cut.
    tokens: int


SIZES = {
    #: About as large as the models that are used most.
    "middle": Size(layers=12, width=768, heads=12, tokens=512),
    #: To try the benchmark without a GPU.
    "tiny": Size(layers=2, width=64, heads=2, tokens=32),
}


def chosen_size() -> Size:
    """The size that the file `size` beside this one names."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "size"), encoding="ascii") as file:
        return SIZES[file.read().strip()]


class Encoder:
    def __init__(self, size: Size) -> None:
        self._size = size
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        #: Batches take turns on the GPU: side by side they would end together, and leave it idle.
        self._turn = threading.Lock()
        torch.manual_seed(0)
        made, width = self._make, size.width
        self._words, self._places = made(_BYTES, width), made(size.tokens, width)
        self._layers = [
            (made(3 * width, width), made(width, width), made(4 * width, width), made(width, 4 * width))
            for _ in range(size.layers)
        ]

    def encode(self, texts: "list[str]") -> "list[str]":
        """A vector of length 1 for each text: its numbers as 32-bit floats, in base64."""
        tokens = self._size.tokens
        raw = bytearray(b"".join(text.encode()[:tokens].ljust(tokens) for text in texts))
        ids = torch.frombuffer(raw, dtype=torch.uint8).view(len(texts), tokens)
        with self._turn, torch.inference_mode():
            vectors = self._encode(ids.to(self._device).int())
            rows = normalize(vectors.mean(dim=1).float(), dim=1).cpu().numpy()
        return [base64.b64encode(row.tobytes()).decode("ascii") for row in rows]

    def _make(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.bfloat16, device=self._device) * 0.02

    def _encode(self, ids: torch.Tensor) -> torch.Tensor:
        texts, tokens = ids.shape
        width = self._size.width
        state = self._words[ids] + self._places
        for attend, merge, widen, narrow in self._layers:
            mixed = linear(layer_norm(state, (width,)), attend)
            parts = mixed.view(texts, tokens, 3, self._size.heads, -1).permute(2, 0, 3, 1, 4)
            seen = scaled_dot_product_attention(parts[0], parts[1], parts[2])
            state = state + linear(seen.transpose(1, 2).reshape(texts, tokens, width), merge)
            state = state + linear(gelu(linear(layer_norm(state, (width,)), widen)), narrow)
        return state
