"""Streams of tokens, one for each caller, from one decoder that works on all of them at once."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator

from model import SEQUENCES, Decoder

# The thread that feeds the GPU must not wait 5 ms for its turn.
sys.setswitchinterval(0.0002)

_queues: "dict[int, asyncio.Queue[int]]" = {}
_wanted = threading.Event()
_decoder = Decoder()


async def run(n: int) -> AsyncIterator[str]:
    """Yields `n` tokens."""
    place = next(each for each in range(SEQUENCES) if each not in _queues)
    queue = _queues[place] = asyncio.Queue()
    _start(asyncio.get_running_loop())
    try:
        for _ in range(n):
            yield str(await queue.get())
    finally:
        del _queues[place]
        if not _queues:
            _wanted.clear()


def parameters() -> int:
    return _decoder.parameters


_thread: "threading.Thread | None" = None


def _start(loop: asyncio.AbstractEventLoop) -> None:
    global _thread
    _wanted.set()
    if _thread is None:
        _thread = threading.Thread(target=_work, args=(loop,), daemon=True)
        _thread.start()


def _work(loop: asyncio.AbstractEventLoop) -> None:
    for tokens in _decoder.steps():
        loop.call_soon_threadsafe(_hand_out, tokens)
        _wanted.wait()


def _hand_out(tokens: "list[int]") -> None:
    for place, queue in _queues.items():
        queue.put_nowait(tokens[place])
