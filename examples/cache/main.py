"""State between calls: what a process has worked out once, it remembers."""

import collections
import time

LIMIT = 1_000
_known = collections.OrderedDict()
_counts = {"hits": 0, "misses": 0}


def run(n: int):
    """The prime factors of a number; the second time they come from memory."""
    started = time.perf_counter()
    is_hit = n in _known
    _counts["hits" if is_hit else "misses"] += 1
    if is_hit:
        _known.move_to_end(n)
    else:
        _known[n] = _factors(n)
        if len(_known) > LIMIT:
            _known.popitem(last=False)
    return {"n": n, "factors": _known[n], "cached": is_hit, "ms": 1000 * (time.perf_counter() - started)}


def stats():
    """What this replica has in memory. Another replica has its own."""
    return {"entries": len(_known), **_counts}


def _factors(n):
    if n < 2:
        raise ValueError("n must be at least 2")
    found, divisor = [], 2
    while divisor * divisor <= n:
        while n % divisor == 0:
            found.append(divisor)
            n //= divisor
        divisor += 1
    return found + ([n] if n > 1 else [])
