"""Runs a file as `python FILE ARGUMENT… --data JSON` would, with data that no command line shows.

Every user of the machine may read a process's command line. So the data comes by a descriptor, and the file
finds it where Python would have put it.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from typing import Any

#: Where the data comes from; nothing comes when there is none.
DATA_DESCRIPTOR = 3
#: Where the main block that clients append to a file without one looks for it.
_VARIABLE = b"CEREBRIUM_INPUT_DATA"


def main() -> None:
    """`sys.argv` is `-c`, the file and its arguments; `sys.path` begins with the harness's own folder."""
    with open(DATA_DESCRIPTOR, "rb") as source:
        data = source.read()
    sys.argv = sys.argv[1:]
    if data:
        sys.argv += ["--data", os.fsdecode(data)]
        if _VARIABLE not in os.environb:  # The app may have a secret of that name.
            os.environb[_VARIABLE] = data
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[1:] = sys.argv
    file = os.path.abspath(sys.argv[0])
    sys.path.append(sys.path.pop(0))  # Last, so that `millrace` is found there unless it is elsewhere too.
    if sys.path[:1] == [""]:  # With PYTHONSAFEPATH the folder of a file is not on the path.
        sys.path[0] = os.path.dirname(os.path.realpath(file))
    _execute(file, _fresh_main(file))


def _fresh_main(file: str) -> dict[str, Any]:
    """The module `__main__`, as it is before a file's first line: not another one, for `pickle` finds it by name."""
    names = vars(sys.modules["__main__"])
    for name in [name for name in names if not name.startswith("__")]:
        del names[name]
    names["__file__"] = file
    names["__cached__"] = None
    names["__loader__"] = importlib.machinery.SourceFileLoader("__main__", file)
    return names


def _execute(file: str, names: dict[str, Any]) -> None:
    try:
        with open(file, "rb") as source:
            code = compile(source.read(), file, "exec", dont_inherit=True)
        exec(code, names)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - told as Python tells it, without the frames of the harness
        traceback = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error.with_traceback(traceback), traceback)
        sys.exit(1)
