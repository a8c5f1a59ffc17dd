import time


def run(name="x", n=1):
    return None


def moment():
    """When it began, on the clock that every process of the machine shares."""
    return time.monotonic()


def work(ms=20):
    """Takes that long; returns when it began."""
    began = time.monotonic()
    time.sleep(ms / 1000)
    return began


def hold(until):
    """Keeps its replica until a moment of that clock; returns when it began to."""
    began = time.monotonic()
    time.sleep(max(0, until - began))
    return {"began": began}
