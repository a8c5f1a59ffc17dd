"""Streams of tokens, one for each caller, from one decoder that works on all of them at once."""

import asyncio
import collections
import sys
import threading
from collections.abc import AsyncIterator

from model import AHEAD, SEQUENCES, Decoder, chosen_size

# The thread that feeds the GPU must not wait 5 ms for its turn.
sys.setswitchinterval(0.0002)

#: The GPU runs no further ahead of the event loop than so many steps.
_UNSEEN_STEPS = 8

_free = list(range(SEQUENCES))
#: The tokens that each sequence's caller has not taken yet.
_untaken: "dict[int, collections.deque[int]]" = {}
#: Of callers that wait for the next step. An `asyncio.Queue` for each caller costs twice the time.
_waiting: "list[asyncio.Future[None]]" = []
_wanted = threading.Event()
_room = threading.Semaphore(_UNSEEN_STEPS)
_decoder = Decoder(chosen_size())
_thread: "threading.Thread | None" = None


async def run(n: int) -> AsyncIterator[str]:
    """Yields `n` tokens."""
    loop = asyncio.get_running_loop()
    _start(loop)
    place = _free.pop()
    untaken = _untaken[place] = collections.deque()
    _wanted.set()
    try:
        for _ in range(n):
            if not untaken:
                step = loop.create_future()
                _waiting.append(step)
                await step
            yield str(untaken.popleft())
    finally:
        del _untaken[place]
        _free.append(place)
        if not _untaken:
            _wanted.clear()


def parameters() -> int:
    return _decoder.parameters


def _start(loop: asyncio.AbstractEventLoop) -> None:
    global _thread
    if _thread is None:
        _thread = threading.Thread(target=_work, args=(loop,), daemon=True)
        _thread.start()


def _work(loop: asyncio.AbstractEventLoop) -> None:
    stale = 0
    for tokens in _decoder.steps():
        if stale > 0:
            stale -= 1
        else:
            _room.acquire()
            loop.call_soon_threadsafe(_hand_out, tokens)
        if not _wanted.is_set():
            _wanted.wait()
            # Steps that had begun before the caller came.
            stale = AHEAD - 1


def _hand_out(tokens: "list[int]") -> None:
    for place, untaken in _untaken.items():
        untaken.append(tokens[place])
    waiting = _waiting[:]
    _waiting.clear()
    for step in waiting:
        if not step.done():  # Its caller may have gone.
            step.set_result(None)
    _room.release()
