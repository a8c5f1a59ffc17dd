import { existsSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { sharedPool, testPool } from "../../support/pool.ts";
import { until } from "../../support/until.ts";
import { StreamCall, gates, noteFile } from "./stream-call.ts";

/** Generators in full flow, which look up only now and then. */
const DEF = `
import os, time

def bursts(size, gates, computes):
    for place, gate in enumerate(gates):
        for _ in range(size if place % 2 == 0 else 0):
            yield "x"
        yield "last"
        while not os.path.exists(gate):
            if computes:
                sum(range(100_000))
            else:
                time.sleep(0.005)

def uneven(n):
    for i in range(n):
        if i % 997 == 0:
            time.sleep(0.002)
        yield i if i % 7 == 0 else "%d%s" % (i, "." * (i * 31 % 500))

def forks(size):
    for _ in range(size):
        yield "x"
    pid = os.fork()
    for _ in range(size):
        yield "child" if pid == 0 else "y"
    yield os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

class Next:
    left = 3
    def __next__(self):
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return str(self.left)

def bare():
    return Next()

class Text(str):
    pass

def texts():
    yield Text("of a subclass")
    yield "a\\ud800b"
    yield "x" * 100

def deaf(note):
    try:
        yield "begun"
        try:
            while True:
                time.sleep(0.001)
        except BaseException as error:
            if isinstance(error, GeneratorExit):
                raise
        while True:
            yield "on"
    finally:
        open(note, "w").close()

def plain():
    return "plain"
`;

/** The same functions by `async def`, without the one that is deaf: there a cancel is asyncio's. */
const ASYNC = DEF.replace(/^def deaf[^]*?(?=^def plain)/m, "")
  .replace(/^def (bursts|uneven|forks|texts|plain)/gm, "async def $1")
  .replace("import os, time", "import asyncio, os, time")
  .replaceAll(/(?<= )time\.sleep/g, "await asyncio.sleep")
  .replace("def __next__", "async def __anext__")
  .replace("raise StopIteration", "raise StopAsyncIteration")
  .replace("def bare", "async def bare");

const BESIDE = `${DEF}
async def unused():
    pass
`;

const UNEVEN = 8_000;

describe.each([
  ["def, one at a time", DEF, 1],
  ["def, several at a time", DEF, 4],
  ["def beside async def", BESIDE, 4],
  ["async def", ASYNC, 4],
])("%s", (_, main, concurrency) => {
  const shared = sharedPool({
    main,
    toml: `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${concurrency}\n`,
  });

  test.each([
    ["sleeps", false],
    ["computes", true],
  ])(
    "the last chunk of a burst, and a lone one later, leave at once although their generator then %s",
    async (__, computes) => {
      const size = 3000;
      const opened = gates(6);
      const stream = new StreamCall(shared(), "bursts", { size, gates: opened, computes }, true);
      for (const [place, gate] of opened.entries()) {
        // The generator goes on only when all it has yielded is here.
        await stream.has(size * (Math.floor(place / 2) + 1) + place + 1);
        writeFileSync(gate, "");
      }
      expect((await stream.end()).kind).toBe("streamed");
      expect(stream.chunks).toHaveLength(3 * (size + 2));
    },
  );

  test("chunks of all sizes and kinds arrive in order, from several streams at a time", async () => {
    const pool = shared();
    const streams = Array.from({ length: 4 }, () => new StreamCall(pool, "uneven", { n: UNEVEN }, true));
    for (const stream of streams) await stream.end();
    const expected = Array.from({ length: UNEVEN }, (__, i) =>
      i % 7 === 0 ? `json ${i}` : `text ${i}${".".repeat((i * 31) % 500)}`,
    );
    for (const { values } of streams) {
      expect(values).toHaveLength(expected.length);
      expect(values.findIndex((value, at) => value !== expected[at])).toBe(-1);
    }
  });

  test("a child forked in full flow sends nothing and ends at its next chunk", async () => {
    const pool = shared();
    const stream = new StreamCall(pool, "forks", { size: 2000 }, true);
    expect((await stream.end()).kind).toBe("streamed");
    const expected = [...Array<string>(2000).fill("text x"), ...Array<string>(2000).fill("text y"), "json 0"];
    expect(stream.values).toEqual(expected);
  });

  test("an iterator that can only give its next, and texts of every making, are sent", async () => {
    const pool = shared();
    const bare = new StreamCall(pool, "bare", {}, true);
    expect([(await bare.end()).kind, bare.values]).toEqual(["streamed", ["text 2", "text 1", "text 0"]]);
    const texts = new StreamCall(pool, "texts", {}, true);
    await texts.end();
    expect(texts.values).toEqual(["text of a subclass", "text a\ufffdb", `text ${"x".repeat(100)}`]);
  });
});

test.each([
  ["one at a time", 1],
  ["several at a time", 4],
])("a generator that swallows the cancel is closed at its next chunk, %s", async (_, concurrency) => {
  const toml = `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${concurrency}\n`;
  const pool = await testPool({ main: DEF, toml });
  const note = noteFile();
  const stream = new StreamCall(pool, "deaf", { note }, true);
  await stream.has(1);
  stream.cancel();
  await until("its finally has run", () => existsSync(note));
  expect((await new StreamCall(pool, "plain", {}, true).end()).kind).toBe("returned");
  expect(pool.exits).toEqual([]);
});
