import os
import time

time.sleep(2)
IMPORTED_BY = os.getpid()


def run():
    return {"pid": os.getpid(), "imported_by": IMPORTED_BY}


def hold(seconds=0.3):
    entered_at = time.monotonic()
    time.sleep(seconds)
    return {"pid": os.getpid(), "imported_by": IMPORTED_BY, "entered_at": entered_at}
