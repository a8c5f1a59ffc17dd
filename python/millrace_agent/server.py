"""An app's own server below the agent: a keeper whose ward becomes the program that its author named."""

from __future__ import annotations

import os
import sys

from millrace_worker import keeper, linux

_PID_BYTES = 32


def main() -> None:
    """`sys.argv` is `-c`, the bundle's folder, the program and its arguments. It begins with the agent's pid on stdin.

    Who asked for its parent here could be told of another: the agent may have died meanwhile.
    """
    told = os.read(0, _PID_BYTES)
    if not told:
        os._exit(1)
    owner = int(told)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    linux.close_inherited(3)
    os.chdir(sys.argv[1])
    keeper.keep(_serve, owner)


def become() -> None:
    """The same where a keeper is there already."""
    _serve()


def _serve() -> None:
    program, *rest = sys.argv[2:]
    try:
        os.execvp(program, [program, *rest])
    except OSError as error:
        print("the app cannot start: %s: %s" % (program, error.strerror), file=sys.stderr, flush=True)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
