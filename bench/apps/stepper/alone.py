"""The stepper without a service.

Reads lines from stdin and answers each with a line of JSON. `rate SECONDS`: tokens per second of all sequences at once.
"""

import json
import sys
import time

from main import Decoder

#: More than any measurement reads.
_TOKENS = 1_000_000_000


def rate(decoder: Decoder, seconds: float) -> float:
    for _ in range(20):
        decoder.step(())
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        count += len(decoder.step(()))
    return count / (time.perf_counter() - began)


if __name__ == "__main__":
    decoder = Decoder()
    # As long as an id of a run.
    for place in range(decoder.capacity):
        decoder.add(f"{place:036}", _TOKENS)
    for line in sys.stdin:
        print(json.dumps(rate(decoder, float(line.split()[1]))), flush=True)
