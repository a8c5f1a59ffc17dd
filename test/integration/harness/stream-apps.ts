/** An iterator that is no generator, and notes that it was closed. */
const CUSTOM = `
class Custom:
    def __init__(self, note):
        self.note = note
    def __iter__(self):
        return self
    def __next__(self):
        return "again"
    def close(self):
        open(self.note, "w").close()
`;

/** Streams of every kind, by `def`. */
export const DEF = `${CUSTOM}
import os, time

def count(n, note=None, size=0):
    made = 0
    try:
        for made in range(1, n + 1):
            if note:
                with open(note, "w") as file:
                    file.write(str(made))
            yield str(made).rjust(size) if size else made
    finally:
        if note:
            with open(note + ".closed", "w") as file:
                file.write(str(made))

def kinds():
    yield "plain"
    yield ""
    yield "a\\n\\nevent: x"
    yield "a\\ud800b"
    yield None
    yield {"a": [1.5, "ü"]}
    yield 9007199254740993

def custom(note):
    return Custom(note)

def iterator():
    return iter(["x", "y"])

def mapped():
    return map(str, range(3))

def empty():
    return iter(())

def raises():
    yield 1
    raise ValueError("after the first")

def not_json(note):
    try:
        yield 1
        yield {2, 3}
    finally:
        open(note, "w").close()

def too_large():
    yield "x" * 5_000_000

def first_raises():
    raise KeyError("before the first")
    yield

def endless(note):
    try:
        yield "begun"
        while True:
            time.sleep(0.01)
    finally:
        open(note, "w").close()

def stubborn():
    try:
        yield 1
        yield 2
    except GeneratorExit:
        yield 3

def plain():
    return "plain"

def flood(note):
    made = 0
    try:
        while True:
            made += 1
            yield "x"
    finally:
        with open(note, "w") as file:
            file.write(str(made))

def pairs(gates, computes):
    for gate in gates:
        yield "first"
        yield "second"
        while not os.path.exists(gate):
            if computes:
                sum(range(100_000))
            else:
                time.sleep(0.005)

def asynchronous():
    async def chunks():
        yield 1
    return chunks()
`;

/** The same functions, by `async def`. */
export const ASYNC = `${CUSTOM}
import asyncio, os, time

async def count(n, note=None, size=0):
    made = 0
    try:
        for made in range(1, n + 1):
            await asyncio.sleep(0)
            if note:
                with open(note, "w") as file:
                    file.write(str(made))
            yield str(made).rjust(size) if size else made
    finally:
        if note:
            with open(note + ".closed", "w") as file:
                file.write(str(made))

async def kinds():
    for value in ["plain", "", "a\\n\\nevent: x", "a\\ud800b", None, {"a": [1.5, "ü"]}, 9007199254740993]:
        yield value

async def custom(note):
    return Custom(note)

async def iterator():
    return iter(["x", "y"])

async def mapped():
    return map(str, range(3))

async def empty():
    return
    yield

async def raises():
    yield 1
    raise ValueError("after the first")

async def not_json(note):
    try:
        yield 1
        yield {2, 3}
    finally:
        open(note, "w").close()

async def too_large():
    yield "x" * 5_000_000

async def first_raises():
    raise KeyError("before the first")
    yield

async def endless(note):
    try:
        yield "begun"
        while True:
            await asyncio.sleep(0.01)
    finally:
        open(note, "w").close()

async def stubborn():
    try:
        yield 1
        yield 2
    except GeneratorExit:
        yield 3

async def plain():
    return "plain"

async def flood(note):
    made = 0
    try:
        while True:
            made += 1
            yield "x"
    finally:
        with open(note, "w") as file:
            file.write(str(made))

async def pairs(gates, computes):
    for gate in gates:
        yield "first"
        yield "second"
        while not os.path.exists(gate):
            if computes:
                sum(range(100_000))
            else:
                await asyncio.sleep(0.005)

def asynchronous():
    async def chunks():
        yield 1
    return chunks()

async def hog(note):
    """Yields without ever letting go of the loop."""
    try:
        while True:
            end = time.monotonic() + 0.01
            while time.monotonic() < end:
                pass
            yield "x"
    finally:
        open(note, "w").close()
`;

/** `def` functions that run beside an event loop. */
export const BESIDE = `${DEF}
async def unused():
    pass
`;
