"""State that is loaded once, at import, and shared by every call."""

import pathlib

WORDS = pathlib.Path(__file__).with_name("words.txt").read_text().split()


def _distance(a: str, b: str) -> int:
    """How many letters have to be changed, added or taken away."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


def run(word: str, count: int = 3):
    """The nearest words of the dictionary."""
    ranked = sorted(WORDS, key=lambda known: (_distance(word.lower(), known), known))
    return {"word": word, "known": word.lower() in WORDS, "nearest": ranked[:count]}
