"""Embeddings of texts, batched."""

import sys

from model import Encoder, chosen_size

# The thread that feeds the GPU must not wait 5 ms for its turn.
sys.setswitchinterval(0.0002)

_encoders: "list[Encoder]" = []


def setup() -> None:
    _encoders.append(Encoder(chosen_size()))


def embed(text: list[str]) -> list[str]:
    return _encoders[0].encode(text)
