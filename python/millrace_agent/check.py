"""Checks whether an agent could run here: `python3 -I …/millrace_agent --check [HOST:PORT]…`."""

from __future__ import annotations

import ast
import importlib
import os
import socket
import sys

from .order import read_address

_PACKAGES = ("millrace_agent", "millrace_walls", "millrace_worker")
_CONNECT_SECONDS = 5.0


def main(addresses: list[str]) -> None:
    """Prints problems to stderr and exits with 1; prints nothing and exits with 0 if there are none."""
    problems: list[str] = []
    # The agent imports `typing` only for its types.
    for name in sorted(_imported() - {"typing"}):
        try:
            importlib.import_module(name)
        except ImportError as error:
            problems.append("the image's Python %d.%d lacks a module: %s" % (*sys.version_info[:2], error))
    for text in addresses:
        try:
            socket.create_connection(read_address(text), _CONNECT_SECONDS).close()
        except (OSError, ValueError) as error:
            problems.append("%s cannot be reached: %s" % (text, error))
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


def _imported() -> set[str]:
    """Modules of the standard library that the agent or the harness imports sooner or later."""
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    names: set[str] = set()
    for folder in (os.path.join(above, package) for package in _PACKAGES):
        for file in (name for name in os.listdir(folder) if name.endswith(".py")):
            with open(os.path.join(folder, file), encoding="utf-8") as source:
                tree = ast.parse(source.read())
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    names |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
                    names.add(node.module)
    return {name for name in names if not name.startswith("millrace_")}
