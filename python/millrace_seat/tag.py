"""Which packages run on this Python, in the words of the services."""

from __future__ import annotations

import platform
import sys
import sysconfig


def own_tag() -> str:
    """Such as `3.11 cpython-311-x86_64-linux-gnu glibc 2.36`."""
    abi = sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag
    return " ".join(["%d.%d" % sys.version_info[:2], str(abi), *platform.libc_ver()])
