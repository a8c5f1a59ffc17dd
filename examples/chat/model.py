"""A language model of the smallest kind: which word follows which two words, counted in a text."""

import pathlib
import random

END = "\n"
_TEXT = pathlib.Path(__file__).with_name("corpus.txt").read_text()


def _count(text):
    follows, starts = {}, []
    for line in text.lower().splitlines():
        words = [END, END, *line.rstrip(".").split(), END]
        starts.append((words[2], words[3]))
        for first, second, third in zip(words, words[1:], words[2:]):
            follows.setdefault((first, second), []).append(third)
    return follows, starts


# Counted once per process, at import: every call finds it there.
FOLLOWS, STARTS = _count(_TEXT)


def words(prompt, limit, seed=None):
    """Yields words: they begin where the prompt's own words lead, if they lead anywhere."""
    chance = random.Random(seed)
    asked = set(prompt.lower().replace("?", " ").replace(".", " ").split())
    near = [pair for pair in STARTS if asked & set(pair)] or STARTS
    pair = (END, END)
    for place in range(limit):
        word = chance.choice(near)[0] if place == 0 else chance.choice(FOLLOWS.get(pair, [END]))
        if word == END:
            return
        yield word
        pair = (pair[1], word)
