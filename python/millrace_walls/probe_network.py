"""Finds out whether connections can be judged on this host, by a permitted one and a denied one."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import sys

from . import walls
from .plan import Plan

_PERMITTED, _DENIED = "127.0.0.1", "127.0.0.2"


def main() -> None:
    """Reads from stdin a level, a folder, the data directory, the harness, a user; prints "judged", or why not."""
    print(outcome(json.loads(sys.stdin.buffer.readline())))


def outcome(asked: dict[str, str]) -> str:
    try:
        return _outcome(asked)
    except OSError as error:
        return "connections cannot be judged: %s" % error.strerror


def _outcome(asked: dict[str, str]) -> str:
    folder = asked["folder"]
    fields = {"level": asked["level"], "network": "true", "home": "", "program": sys.executable, "order": ""}
    places = {"bundle": folder, "storage": folder, "scratch": folder, "harness": asked["harness"]}
    rules = {"management_port": "0", "denied": _DENIED + "/32"}
    plan = Plan({**fields, **places, **rules, "data_dir": asked["data_dir"], "user": asked["user"]}.items())
    if plan.user is not None:
        os.chown(folder, plan.user, plan.user)
    with socket.create_server(("0.0.0.0", 0)) as server:
        heard, told = socket.socketpair()
        child = walls.fork(plan)
        if child == 0:
            heard.close()
            _try(plan, told, server.getsockname()[1])
        told.close()
        try:
            return _keep(plan, heard)
        finally:
            # Without an answer it would wait forever.
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _try(plan: Plan, told: socket.socket, port: int) -> None:
    """Raises the walls, sends the notifier's descriptor, then how both connections ended."""
    said = "the process that tried it failed"
    try:
        listener = walls.raise_around(plan)
        socket.send_fds(told, [b"\n"], [listener] if listener is not None else [])
        ends: list[int] = []
        for address in (_PERMITTED, _DENIED):
            with socket.socket() as connection:
                ends.append(connection.connect_ex((address, port)))
        said = "judged" if ends == [0, errno.EACCES] else "connections end with the errors %d and %d" % tuple(ends)
    except OSError as error:
        said = str(error.strerror)
    finally:
        told.send(said.encode())
        os._exit(0)


def _keep(plan: Plan, heard: socket.socket) -> str:
    """Answers the two connections; returns the child's last message."""
    with heard:
        said, descriptors, _, _ = socket.recv_fds(heard, 1000, 1, socket.MSG_CMSG_CLOEXEC)
        if not descriptors:
            return said.decode().strip() or "the process that tried it ended"
        connects = walls.answers(plan, descriptors[0], 0)
        is_open = True
        while is_open:
            poll = select.poll()
            for each in (heard, connects):
                poll.register(each, select.POLLIN)
            ready = dict(poll.poll())
            if heard.fileno() in ready:
                break
            is_open = connects.work()
        return heard.recv(1000).decode()
