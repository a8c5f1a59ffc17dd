/** A stepper whose calls say what they yield: each step gives every call its next value. */
export const DECODER = `
import json, os, sys, threading, time
import millrace

def told(event):
    with open("told.txt", "a") as file:
        file.write(json.dumps(event) + "\\n")

class Decoder:
    """Runs what its callers ask for."""

    capacity = 4

    def __init__(self):
        told(["made", threading.current_thread().name])
        self.calls = {}

    def add(self, id, values: list, forever: bool = False, *, gate: str = "", refused: str = ""):
        """Says the values."""
        print("added", flush=True)
        if refused:
            raise ValueError(refused)
        told(["add", id, millrace.run.id, millrace.run.attempt, threading.current_thread().name])
        self.calls[id] = [list(values), forever, gate]

    def remove(self, id):
        told(["remove", id])
        del self.calls[id]

    def step(self, paused):
        made = {}
        for id, (values, forever, gate) in list(self.calls.items()):
            if id in paused:
                continue
            if gate and not os.path.exists(gate):
                made[id] = millrace.SKIP
                continue
            value = values.pop(0) if values else ("again" if forever else millrace.END)
            if value == "raise":
                raise MemoryError("no memory for it")
            if value == "list":
                return []
            while isinstance(value, str) and value.startswith("wait for ") and not os.path.exists(value[9:]):
                time.sleep(0.005)
            if value == "error":
                value = LookupError("its own")
            if value == "unsendable":
                value = {1, 2}
            if value == "strange":
                value = Strange()
            if value == "huge":
                value = "x" * 5_000_000
            made[id] = value
            if value is millrace.END or isinstance(value, Exception):
                del self.calls[id]
        return made

class Strange:
    def model_dump(self, mode):
        raise LookupError("while it is encoded")

class Flood:
    """Heeds no reader."""

    capacity = 8

    def __init__(self):
        self.calls = {}

    def add(self, id, size, count):
        self.calls[id] = ["x" * size, count]

    def remove(self, id):
        told(["remove", id])
        del self.calls[id]

    def step(self, paused):
        told(["paused", sorted(paused)])
        made = {}
        for id, call in list(self.calls.items()):
            call[1] -= 1
            made[id] = call[0] if call[1] >= 0 else millrace.END
            if call[1] < 0:
                del self.calls[id]
        return made

def plain(text):
    return text
`;

/** The same, beside an event loop. */
export const ASYNC_DECODER = `${DECODER}
import asyncio

async def later(text):
    await asyncio.sleep(0)
    return text
`;
