"""The folder that an agent keeps everything in."""

from __future__ import annotations

import os


def choose() -> str:
    """Where it is to be. `tempfile` would do, but its imports take as long as a connection to the service."""
    return os.path.join(os.environ.get("TMPDIR", "/tmp"), "millrace-seat-" + os.urandom(8).hex())


def remove(folder: str) -> None:
    """With everything in it, as far as that can be."""
    import shutil

    # Each before it is looked into: an app may have closed it to itself, and the kernel closes folders of its own.
    for place, names, _ in os.walk(folder):
        for path in (os.path.join(place, name) for name in names):
            try:
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
            except OSError:
                pass  # What cannot be removed is the place's to remove.
    shutil.rmtree(folder, ignore_errors=True)
