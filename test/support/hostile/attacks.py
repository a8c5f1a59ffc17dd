"""What a hostile `main.py` does from inside a real replica: it finds the harness's connections and speaks on them."""

import gc
import json as json  # `from attacks import *` gives these two on.
import os as os
import struct
import sys
import time

CALL, HELLO, INIT_FAILED, RESULT, FAILED, STREAM, CHUNK, END, CANCELLED = range(1, 10)
WITHDRAWN, BEGUN = 36, 37
PONG = 39


def frame(kind, call_id, payload=b"", length=None):
    return struct.pack("<IIB", len(payload) if length is None else length, call_id, kind) + payload


def result(call_id, payload, status=0, run_ms=1.0):
    return frame(RESULT, call_id, struct.pack("<dH", run_ms, status) + payload)


def replica():
    """The harness's own object, with the wire and the control connection."""
    from millrace_worker.call import Replica

    return next(each for each in gc.get_objects() if isinstance(each, Replica))


def call_id():
    """Of the call that runs now, one at a time."""
    return replica()._begun


def template_connection():
    """From within the import: the socket on which the template talks."""
    below = sys._getframe()
    while below is not None:
        if "home" in below.f_locals and "ticket" in below.f_locals:
            return below.f_locals["home"]
        below = below.f_back
    return None


def send(data):
    replica().wire.sendall(data)


def rest():
    """Waits to be ended."""
    time.sleep(3600)
