"""Tracebacks as their author reads them: files of the bundle by their path in it, `main.py` for `main.py`."""

from __future__ import annotations

import os

#: How a traceback names a file of the bundle; empty until the bundle is known.
_in_bundle = ""


def set_bundle(folder: str) -> None:
    """From now on files in this folder are named from it. Where a version lies on the disk tells nobody anything."""
    global _in_bundle
    _in_bundle = 'File "' + os.path.join(folder, "")


def shorten(text: str) -> str:
    """A traceback, or any text with one in it, without the path of the bundle's folder."""
    return text.replace(_in_bundle, 'File "') if _in_bundle else text
