"""Makes word vectors of the corpus: how much more often two words stand together than by chance, in 16 numbers."""

import json
import math
import pathlib
import random

HERE = pathlib.Path(__file__).parent
SIZE = 16
ROUNDS = 12


def together(lines, reach=4):
    """How often each word stands within reach of each other word."""
    counts = {}
    for words in lines:
        for i, word in enumerate(words):
            for other in words[max(0, i - reach) : i + reach + 1]:
                if other != word:
                    row = counts.setdefault(word, {})
                    row[other] = row.get(other, 0) + 1
    return counts


def surprises(counts):
    """Positive pointwise mutual information: 0 for what is only chance."""
    sums = {word: sum(row.values()) for word, row in counts.items()}
    total = sum(sums.values())
    return {
        word: {other: max(0.0, math.log(count * total / (sums[word] * sums[other]))) for other, count in row.items()}
        for word, row in counts.items()
    }


def orthonormal(columns):
    """Gram-Schmidt: columns that say different things."""
    done = []
    for column in columns:
        rest = column
        for other in done:
            part = sum(a * b for a, b in zip(rest, other))
            rest = [a - part * b for a, b in zip(rest, other)]
        length = math.sqrt(sum(a * a for a in rest)) or 1.0
        done.append([a / length for a in rest])
    return done


def vectors(matrix):
    """The matrix's strongest directions, by repeated multiplication."""
    words = sorted(matrix)
    place = {word: i for i, word in enumerate(words)}
    rows = [[(place[other], value) for other, value in matrix[word].items()] for word in words]
    chance = random.Random(1)
    columns = orthonormal([[chance.gauss(0, 1) for _ in words] for _ in range(SIZE)])
    for _ in range(ROUNDS):
        columns = orthonormal([[sum(v * column[i] for i, v in row) for row in rows] for column in columns])
    return {word: [round(column[i], 5) for column in columns] for i, word in enumerate(words)}


if __name__ == "__main__":
    text = (HERE / "corpus.txt").read_text().lower()
    weights = vectors(surprises(together([line.rstrip(".").split() for line in text.splitlines()])))
    (HERE / "weights.json").write_text(json.dumps(weights))
    print(f"{len(weights)} words, {SIZE} numbers each")
