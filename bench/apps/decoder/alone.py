"""The decoder without a service: what a service must not slow.

Reads lines from stdin and answers each with a line of JSON. `rate SECONDS`: tokens per second of the bare loop.
`first COUNT PAUSE`: milliseconds until the first token of each of so many calls, one at a time, of the app's function,
with a pause of so many seconds before each.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator


def rate(steps: "Iterator[list[int]]", seconds: float) -> float:
    for _ in range(20):
        next(steps)
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        count += len(next(steps))
    return count / (time.perf_counter() - began)


async def first(count: int, pause: float) -> "list[float]":
    import main

    times = []
    for _ in range(count):
        await asyncio.sleep(pause)
        began = time.perf_counter()
        async for _ in main.run(1):
            times.append((time.perf_counter() - began) * 1000)
    return times


def answers() -> "Iterator[object]":
    loop = asyncio.new_event_loop()
    steps = None
    for line in sys.stdin:
        what, *numbers = line.split()
        if what == "first":
            yield loop.run_until_complete(first(int(numbers[0]), float(numbers[1])))
            continue
        if steps is None:
            from model import Decoder, chosen_size

            steps = Decoder(chosen_size()).steps()
        yield rate(steps, float(numbers[0]))


if __name__ == "__main__":
    for answer in answers():
        print(json.dumps(answer), flush=True)
