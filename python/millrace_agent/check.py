"""Tries whether an agent could run here: `python3 -I …/millrace_agent --check [HOST:PORT]…`."""

from __future__ import annotations

import ast
import importlib
import os
import socket
import sys

from .order import read_address

_PACKAGES = ("millrace_agent", "millrace_walls", "millrace_worker")
_CONNECT_SECONDS = 5.0
#: Only for types: nothing of it is needed where the agent runs.
_UNUSED = {"typing"}


def main(addresses: list[str]) -> None:
    """Says on stderr what is wrong, and ends with 1; says nothing and ends with 0 if all is well."""
    problems = _missing_modules() + _unreachable(addresses)
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


def _missing_modules() -> list[str]:
    """Modules of the standard library that the agent or the harness imports sooner or later."""
    problems: list[str] = []
    for name in sorted(_imported() - _UNUSED):
        try:
            importlib.import_module(name)
        except ImportError as error:
            problems.append("the image's Python %d.%d lacks a module: %s" % (*sys.version_info[:2], error))
    return problems


def _imported() -> set[str]:
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


def _unreachable(addresses: list[str]) -> list[str]:
    problems: list[str] = []
    for text in addresses:
        try:
            socket.create_connection(read_address(text), _CONNECT_SECONDS).close()
        except (OSError, ValueError) as error:
            problems.append("%s cannot be reached: %s" % (text, error))
    return problems
