"""Part of the hostile app: Python runs it before the app's first line, if PYTHONPATH leads here."""

import sys

with open("/proc/self/status", encoding="ascii") as _lines:
    sys.customized = next(line.split()[1] for line in _lines if line.startswith("Seccomp:"))  # type: ignore[attr-defined]
