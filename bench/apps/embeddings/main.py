"""Embeddings of texts, batched."""

import sys

from model import Encoder, chosen_size

# PyTorch gives the interpreter up with each operation. The thread that feeds the GPU must have it back at once, while
# another reads arguments and writes results.
sys.setswitchinterval(0.00002)

_encoders: "list[Encoder]" = []


def setup() -> None:
    _encoders.append(Encoder(chosen_size()))


def embed(text: list[str]) -> list[str]:
    return _encoders[0].encode(text)
