"""Which packages run on this Python, in the words of the services."""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES


def own_tag() -> str:
    """Such as `3.11 cpython-311-x86_64-linux-gnu glibc 2.36`."""
    # As `sysconfig` and `platform` tell it, which take longer to import than the agent itself.
    _, *words = (EXTENSION_SUFFIXES or [""])[0].split(".")
    abi = words[0] if len(words) == 2 and words[0] != "abi3" else sys.implementation.cache_tag
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, OSError, ValueError):
        libc = ""
    return " ".join(["%d.%d" % sys.version_info[:2], str(abi), libc or _other_libc()])


def _other_libc() -> str:
    import platform

    return " ".join(platform.libc_ver())
