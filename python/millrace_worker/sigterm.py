"""SIGTERM in a replica: the orderly end for the replica itself, what the app made of it for everything else."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any, Callable


def take(end: Callable[[], None]) -> Callable[[], None]:
    """From now on SIGTERM calls `end`, then the app's own handler, once; in the app's forks only the latter.

    Call what it gives at the end of the replica: the wire's end may be read before the signal comes, and the
    app's handler must run all the same.
    """
    of_app = signal.getsignal(signal.SIGTERM)
    masks = threading.local()
    is_told = False

    def handle(number: int, frame: Any) -> None:
        nonlocal is_told
        end()
        if callable(of_app) and not is_told:
            is_told = True
            of_app(number, frame)

    def finish() -> None:
        if signal.getsignal(signal.SIGTERM) is handle:
            handle(signal.SIGTERM, None)

    # A worker that the app forks must end by SIGTERM, as its parent expects: by one that comes before the
    # handler is put back too, so the signal waits until then.
    def hold() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def put_back() -> None:
        if signal.getsignal(signal.SIGTERM) is handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL if of_app is None else of_app)
        release()

    signal.signal(signal.SIGTERM, handle)
    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=put_back)
    return finish
