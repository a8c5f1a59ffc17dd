import asyncio
import random
import time


async def run(per_second, start, until):
    """One message at once, then so many a second at a random phase; both moments are seconds of the epoch."""
    yield str(time.time_ns())
    due = start + random.random() / per_second
    # A schedule, not a pause: whoever falls behind yields without a wait until he has caught up.
    while max(due, time.time()) < until:
        await asyncio.sleep(due - time.time())
        yield str(time.time_ns())
        due += 1 / per_second
