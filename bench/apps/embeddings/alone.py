"""The function of the app without a service.

Reads lines from stdin and answers each with a line of JSON. `rate SIZE SECONDS BYTES`: texts per second, in batches of
that size, each text of so many bytes.
"""

import json
import sys
import time

import main


def rate(size: int, seconds: float, length: int) -> float:
    texts = ["x" * length] * size
    for _ in range(3):
        main.embed(texts)
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        count += len(main.embed(texts))
    return count / (time.perf_counter() - began)


if __name__ == "__main__":
    main.setup()
    for line in sys.stdin:
        _, size, seconds, length = line.split()
        print(json.dumps(rate(int(size), float(seconds), int(length))), flush=True)
