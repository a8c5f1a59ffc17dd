"""A language model that has read one text. It looks for the longest piece of the conversation that is also in its
text, and goes on from there. It has no weights, and knows nothing but `corpus.txt`: replace it with a real one."""

import collections
import pathlib
import random
import re

from tools import text_of

LONGEST = 16  # Tokens it looks back.
QUESTION, ANSWER, END = "Q:", "A:", "\n"


def tokens_of(text):
    """Words and signs with the blank before them, and ends of lines."""
    return re.findall(r" ?\w+| ?[^\w\s]|\n", text)


# Read once per replica, at its start.
TOKENS = tokens_of(pathlib.Path(__file__).with_name("corpus.txt").read_text())
LOWER = [token.lower() for token in TOKENS]


def prompt_of(messages):
    """A conversation in the form that the text has, up to where the answer begins."""
    lines = [
        f"{ANSWER if message.get('role') == 'assistant' else QUESTION} {text_of(message)}{END}"
        for message in messages
        if message.get("role") != "system"
    ]
    return tokens_of("".join(lines) + ANSWER)


def answer(prompt, limit, temperature=1.0, seed=None):
    """Yields tokens up to the end of the answer, or `limit` of them."""
    chance = random.Random(None if seed is None else str(seed))
    context = [token.lower() for token in prompt]
    for _ in range(limit):
        token = _choose(_followers(context), temperature, chance)
        if token == END:
            return
        yield token
        context.append(token.lower())


def _followers(context):
    """How often each token follows the longest end of the context that the text has."""
    for length in range(min(LONGEST, len(context)), -1, -1):
        end = context[len(context) - length :]
        places = (place for place in range(len(TOKENS) - length) if LOWER[place : place + length] == end)
        found = collections.Counter(TOKENS[place + length] for place in places)
        if found:
            return found
    raise ValueError("the text is empty")


def _choose(found, temperature, chance):
    if temperature == 0:
        return found.most_common(1)[0][0]
    weights = [count ** (1 / temperature) for count in found.values()]
    return chance.choices(list(found), weights)[0]
