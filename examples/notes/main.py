"""Files that outlive replicas, versions and the service: the project's persistent storage."""

import json
import os
import pathlib
import time
import uuid

NOTES = pathlib.Path(os.environ["PERSISTENT_STORAGE"]) / "notes"


def run(text: str):
    """Keeps a note."""
    NOTES.mkdir(parents=True, exist_ok=True)
    note = {"id": uuid.uuid4().hex, "text": text, "at": time.time()}
    # Written aside and moved: somebody who reads meanwhile sees a whole note or none.
    aside = NOTES / f".{note['id']}"
    aside.write_text(json.dumps(note))
    aside.rename(NOTES / f"{note['id']}.json")
    return note


def everything(limit: int = 100):
    """The notes, newest first."""
    notes = [json.loads(path.read_text()) for path in NOTES.glob("*.json")] if NOTES.exists() else []
    return sorted(notes, key=lambda note: note["at"], reverse=True)[:limit]
