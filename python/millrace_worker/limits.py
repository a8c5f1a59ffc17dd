"""The most that a process of an app may tell the service, which ends one that tells more.

`docs/wire.md` holds the same numbers; a test compares it with this file and with the service's side.
"""

from __future__ import annotations

HELLO_BYTES = 2 * 1024 * 1024
FUNCTIONS = 1_000
#: Of all functions together.
PARAMETERS = 10_000
#: JSON values inside the schemas of one function.
SCHEMA_VALUES = 5_000
#: Of all functions together.
APP_SCHEMA_VALUES = 20_000
#: Of a function, a parameter, an argument.
NAME_CHARS = 256
#: Each of a docstring, an annotation, a default as text.
NOTE_CHARS = 4_096
MESSAGE_CHARS = 8_192
#: The service keeps less of it.
TRACEBACK_CHARS = 65_536
#: Why a template does not fork.
REASON_CHARS = 1_000
#: Arguments that do not fit: as many are named, the others are counted.
MISFITS = 500
MISFIT_CHARS = 128


def short_name(name: str) -> str:
    """A name as a caller is told it, who may have made it as long as a book."""
    return name if len(name) <= MISFIT_CHARS else name[: MISFIT_CHARS - 1] + "\u2026"
