"""System calls that Python's standard library does not name, by number. Raises `OSError` as the library does."""

from __future__ import annotations

import ctypes
import os

MACHINE = os.uname().machine

# Holds the interpreter's lock: a process that `clone` makes must not have to ask for it.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

_PR_SET_NO_NEW_PRIVS = 38


def syscall(number: int, *arguments: int | bytes | None) -> int:
    """What the kernel returns; its errors are raised. Bytes are handed over as a copy, by address."""
    words = [_word(each) for each in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *words))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def prctl(option: int, value: int) -> None:
    """Sets a property of this process."""
    if _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def gain_no_privileges() -> None:
    """No program that this process becomes has more rights than it; the kernel asks for that before any wall."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def address_of(held: ctypes.Array[ctypes.c_char]) -> int:
    """Where the bytes are, for structures that point to others."""
    return ctypes.addressof(held)


def hold(packed: bytes) -> ctypes.Array[ctypes.c_char]:
    """Bytes that keep their place as long as they are referred to."""
    return ctypes.create_string_buffer(packed, len(packed))


def _word(value: int | bytes | None) -> ctypes.c_long | ctypes.c_char_p:
    return ctypes.c_long(value) if isinstance(value, int) else ctypes.c_char_p(value)
