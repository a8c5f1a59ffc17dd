"""The life of a replica: imports the app, runs `setup`, sends HELLO, and takes calls until the service sends STOP."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from time import perf_counter
from typing import Any, Callable, NoReturn

from . import app as apps
from . import checkpoints, frames, keeper, logs
from .app import Order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .call import Replica

_PONG = frames.pack(frames.PONG, 0)


def start(order: Order) -> None:
    """An ordinary replica: imports the app, then serves."""
    ticket = order.replica_ticket or ""
    logs.send_home(order.address, ticket)
    wire = frames.connect(order.address, "wire", ticket)
    try:
        app = apps.load(order)
    except BaseException as error:  # noqa: BLE001 - an import may raise anything, SystemExit included
        _fail(wire, error)
    serve(order, app, ticket, wire)


def serve(order: Order, app: apps.App, ticket: str, wire: socket.socket | None = None) -> None:
    """Runs `setup`, sends HELLO and takes calls until the service closes the wire or sends STOP."""
    # Not before the app: this imports traceback, tokenize and others, and main.py may have modules of these names.
    from .call import Replica

    wire = wire or frames.connect(order.address, "wire", ticket)
    control = frames.connect(order.address, "control", ticket)
    replica = Replica(order, app, wire, control)
    checkpoints.serve(replica.outbox)
    os.register_at_fork(after_in_child=replica.left_by_fork)
    run = _way_of_running(replica)
    steppers = None
    if app.steppers:
        from .stepper import Steppers

        steppers = Steppers(replica)
    threading.Thread(target=_read_control, args=(replica,), name="millrace-control", daemon=True).start()
    try:
        setup_ms = _set_up(replica)
        capacities = steppers.start() if steppers else {}
    except BaseException as error:  # noqa: BLE001 - as of an import
        _fail(wire, error)
    # Only now: SIGTERM ends `setup` at once, and a handler that it installed is the app's.
    finish = take(replica.stop_reading)
    hello: dict[str, Any] = {"pid": os.getpid(), "setup_ms": setup_ms, "steppers": capacities, **app.describe()}
    replica.send(frames.pack(frames.HELLO, 0, json.dumps(hello).encode()))
    run()
    if steppers:
        steppers.drain()
    finish()
    if not replica.is_stopping:
        keeper.wake()  # The service may be gone, and this thread may notice it first.
    import atexit

    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] - nothing else runs them before os._exit
    os._exit(0)  # Threads the function left behind do not keep the replica alive.


def _set_up(replica: Replica) -> float | None:
    """Runs the app's `setup`; returns its milliseconds, None if there is none."""
    setup = replica.app.setup
    if setup is None:
        return None
    started = perf_counter()
    try:
        returned = replica.set_up(setup)
    finally:
        logs.finish_lines("")
    if hasattr(returned, "__await__"):  # As of a decorator that hides the `async def`: its work was never done.
        raise TypeError("setup() in main.py returned an awaitable, which nothing awaits: define it with async def")
    return (perf_counter() - started) * 1000


def _fail(wire: socket.socket, error: BaseException) -> NoReturn:
    """Tells the service why this replica cannot start, and ends it."""
    wire.sendall(frames.pack(frames.INIT_FAILED, 0, json.dumps(apps.describe_failure(error)).encode()))
    sys.exit(1)


def _way_of_running(replica: Replica) -> Callable[[], None]:
    if replica.app.has_async:
        from .looped import Looped  # asyncio costs 20 ms to import: only for apps that use it

        return Looped(replica).run
    # Serial does not read the wire while a call runs, but steppers take calls then.
    if replica.order.concurrency == 1 and not replica.app.steppers:
        from .serial import Serial

        return Serial(replica).run
    from .threaded import threaded

    return threaded(replica)


def _read_control(replica: Replica) -> None:
    reader = frames.FrameReader(replica.control)
    try:
        while (received := reader.receive()) is not None:
            for call_id, kind, payload in received:
                _obey(replica, call_id, kind, payload)
    except OSError:
        pass  # The connection is lost.
    keeper.wake()
    os._exit(1)  # The service is gone.


def _obey(replica: Replica, call_id: int, kind: int, payload: bytes) -> None:
    if kind == frames.STOP:
        replica.is_stopping = True
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    elif kind == frames.PING:
        replica.control.sendall(_PONG)
    elif kind == frames.CREDIT:
        replica.grant(call_id, frames.COUNT.unpack(payload)[0])
    elif kind == frames.CHECKPOINTED:
        checkpoints.answer(call_id, frames.COUNT.unpack(payload)[0])
    elif kind in (frames.CANCEL, frames.WITHDRAW):
        taken_back = replica.withdraw(call_id)
        replica.control.sendall(frames.pack(frames.WITHDRAWN if taken_back else frames.BEGUN, call_id))
        if kind == frames.CANCEL and not taken_back:
            replica.cancel(call_id)
            checkpoints.interrupt(call_id)


def take(end: Callable[[], None]) -> Callable[[], None]:
    """Has SIGTERM call `end`, then the app's own handler, once; in the app's forks only the latter.

    Call the returned function at the end of the replica: the app's handler must run even if the wire ends before the
    signal comes.
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

    # A worker that the app forks must end by SIGTERM. The signal is blocked until the app's handler is restored.
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
