import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { sharedPool, testPool } from "../../support/pool.ts";
import { until } from "../../support/until.ts";
import { ASYNC, BESIDE, DEF } from "./stream-apps.ts";
import { StreamCall, firstChunks, frameBytes, noteFile } from "./stream-call.ts";

/** Of text that a test lets `count` yield; and how many of these a stream may send at first. */
const SIZE = 1000;
const FIRST = firstChunks(SIZE);

describe.each([
  ["def, one at a time", DEF, 1],
  ["def, several at a time", DEF, 4],
  ["def beside async def", BESIDE, 4],
  ["async def", ASYNC, 1],
  ["async def, several at a time", ASYNC, 4],
])("%s", (_, main, concurrency) => {
  const shared = sharedPool({
    main,
    toml: `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${concurrency}\n`,
  });

  test("generators and iterators send every chunk in order, then the end", async () => {
    const pool = shared();
    const read = async (name: string, args: object = {}): Promise<StreamCall> => {
      const stream = new StreamCall(pool, name, args, true);
      await stream.end();
      return stream;
    };
    const count = await read("count", { n: 500 });
    expect(count.values).toEqual(Array.from({ length: 500 }, (_, index) => `json ${index + 1}`));
    expect([count.streams, count.outcome?.kind]).toEqual([1, "streamed"]);
    expect((await read("kinds")).values).toEqual([
      "text plain",
      "text ",
      "text a\n\nevent: x",
      "text a\ufffdb",
      "json null",
      'json {"a":[1.5,"ü"]}',
      "json 9007199254740993",
    ]);
    expect((await read("iterator")).values).toEqual(["text x", "text y"]);
    expect((await read("mapped")).values).toEqual(["text 0", "text 1", "text 2"]);
    const empty = await read("empty");
    expect([empty.values, empty.streams, empty.outcome?.kind]).toEqual([[], 1, "streamed"]);
    expect((await read("plain")).outcome).toMatchObject({ kind: "returned" });
  });

  test("an exception and a value that is not JSON end a stream as what they are", async () => {
    const pool = shared();
    const raised = new StreamCall(pool, "raises", {}, true);
    expect(await raised.end()).toMatchObject({ kind: "raised", message: "ValueError: after the first" });
    expect(raised.values).toEqual(["json 1"]);
    expect(await new StreamCall(pool, "first_raises", {}, true).end()).toMatchObject({ kind: "raised" });
    const note = noteFile();
    const unsendable = new StreamCall(pool, "not_json", { note }, true);
    expect(await unsendable.end()).toMatchObject({ kind: "unsendable", code: "result_not_json" });
    await until("the generator was closed", () => existsSync(note));
    const large = await new StreamCall(pool, "too_large", {}, true).end();
    expect(large).toMatchObject({ kind: "unsendable", code: "result_too_large" });
    expect((await new StreamCall(pool, "plain", {}, true).end()).kind).toBe("returned");
  });

  test("a generator stops when its credit is used up, and goes on by as much as is granted", async () => {
    const pool = shared();
    const note = noteFile();
    const stream = new StreamCall(pool, "count", { n: 100, note, size: SIZE }, false);
    const made = () => Number(existsSync(note) ? readFileSync(note, "utf8") : 0);
    await stream.has(FIRST);
    if (concurrency > 1) await new StreamCall(pool, "iterator", {}, true).end();
    expect([made(), stream.chunks.length]).toEqual([FIRST, FIRST]);
    stream.grant(5 * frameBytes(SIZE));
    await stream.has(FIRST + 5);
    // A later answer on the same wire: nothing more was on its way.
    expect(made()).toBe(FIRST + 5);
    stream.grant(100 * frameBytes(SIZE));
    expect((await stream.end()).kind).toBe("streamed");
    expect(stream.chunks).toHaveLength(100);
  });

  test("a cancel closes a generator that waits for credit: its finally runs, and the slot is free", async () => {
    const pool = shared();
    const note = noteFile();
    const stream = new StreamCall(pool, "count", { n: 100, note, size: SIZE }, false);
    await stream.has(FIRST);
    stream.cancel();
    expect((await stream.end()).kind).toBe("cancelled");
    await until("its finally has run", () => existsSync(`${note}.closed`));
    expect((await new StreamCall(pool, "plain", {}, true).end()).kind).toBe("returned");
    expect(pool.exits).toEqual([]);
  });

  test("a cancel closes an iterator that is no generator", async () => {
    const pool = shared();
    const note = noteFile();
    const stream = new StreamCall(pool, "custom", { note }, false);
    await stream.has(firstChunks("again".length));
    stream.cancel();
    await until("it was closed", () => existsSync(note));
    expect((await new StreamCall(pool, "plain", {}, true).end()).kind).toBe("returned");
  });

  test("a cancel ends a generator in the middle of its work, and no chunk comes after", async () => {
    const pool = shared();
    const note = noteFile();
    const stream = new StreamCall(pool, "endless", { note }, true);
    await stream.has(1);
    stream.cancel();
    await until("its finally has run", () => existsSync(note));
    expect((await new StreamCall(pool, "plain", {}, true).end()).kind).toBe("returned");
    expect(stream.chunks).toHaveLength(1);
    expect(pool.exits).toEqual([]);
  });

  test("a generator that yields after it was closed harms nobody", async () => {
    const pool = shared();
    const stream = new StreamCall(pool, "count", { n: 100, size: SIZE }, false);
    await stream.has(FIRST);
    const stubborn = new StreamCall(pool, "stubborn", {}, false);
    if (concurrency > 1) await stubborn.end();
    stream.cancel();
    stubborn.cancel();
    await stubborn.end();
    expect((await new StreamCall(pool, "plain", {}, true).end()).kind).toBe("returned");
  });
});

test("streams and plain calls of one replica do not mix", async () => {
  const toml = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 8\n";
  const pool = await testPool({ main: DEF, toml });
  const streams = Array.from(
    { length: 8 },
    (_, index) => new StreamCall(pool, "count", { n: 50 + index }, true),
  );
  const plain = Array.from({ length: 20 }, () => new StreamCall(pool, "plain", {}, true));
  for (const stream of [...streams, ...plain]) await stream.end();
  for (const [index, { values }] of streams.entries()) {
    expect(values).toEqual(Array.from({ length: 50 + index }, (_, at) => `json ${at + 1}`));
  }
  for (const { values } of plain) expect(values).toEqual([]);
});
