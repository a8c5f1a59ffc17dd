"""Text to vectors, on the CPU, with weights that the build has made."""

import json
import math
import pathlib

WEIGHTS = json.loads(pathlib.Path(__file__).with_name("weights.json").read_text())
SIZE = len(next(iter(WEIGHTS.values())))


def run(input: "str | list[str]", model: str = "millrace-words", encoding_format: str = "float", **options):
    """One vector for each text: the mean of its words' vectors, of length 1."""
    texts = [input] if isinstance(input, str) else input
    data = [{"object": "embedding", "index": i, "embedding": _embed(text)} for i, text in enumerate(texts)]
    tokens = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": model, "data": data, "usage": usage}


def nearest(word: str, count: int = 5):
    """The words that stand where this one stands."""
    own = _embed(word)
    likeness = {other: _dot(own, _unit(vector)) for other, vector in WEIGHTS.items() if other != word.lower()}
    best = sorted(likeness, key=lambda other: likeness[other], reverse=True)[:count]
    return [{"word": other, "likeness": round(likeness[other], 3)} for other in best]


def _embed(text):
    known = [WEIGHTS[word] for word in text.lower().replace(".", " ").split() if word in WEIGHTS]
    return _unit([sum(numbers) for numbers in zip(*known)] if known else [0.0] * SIZE)


def _unit(vector):
    length = math.sqrt(_dot(vector, vector)) or 1.0
    return [number / length for number in vector]


def _dot(a, b):
    return sum(x * y for x, y in zip(a, b))
