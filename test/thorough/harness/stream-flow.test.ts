import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { INITIAL_CREDIT_BYTES } from "../../../src/replicas/frames.ts";
import { sharedPool, testPool } from "../../support/pool.ts";
import { until } from "../../support/until.ts";
import { ASYNC, BESIDE, DEF } from "../../integration/harness/stream-apps.ts";
import {
  StreamCall,
  firstChunks,
  frameBytes,
  gates,
  noteFile,
} from "../../integration/harness/stream-call.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));
const toml = (concurrency: number) => `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${concurrency}\n`;

describe.each([
  ["def, one at a time", DEF, 1],
  ["def, several at a time", DEF, 4],
  ["def beside async def", BESIDE, 4],
  ["async def, one at a time", ASYNC, 1],
  ["async def, several at a time", ASYNC, 4],
])("%s", (_, main, concurrency) => {
  const shared = sharedPool({ main, toml: toml(concurrency) });

  test("an eager generator makes no more than its credit pays for, and one chunk beyond", async () => {
    const pool = shared();
    const note = noteFile();
    const stream = new StreamCall(pool, "flood", { note }, false);
    await until("the credit is used up", () => stream.owedBytes >= INITIAL_CREDIT_BYTES);
    stream.grant(10_000);
    await until("so is what was granted", () => stream.owedBytes >= INITIAL_CREDIT_BYTES);
    const paid = Math.ceil((INITIAL_CREDIT_BYTES + 10_000) / frameBytes(1));
    stream.cancel();
    await until("the generator was closed", () => existsSync(note) && readFileSync(note, "utf8") !== "");
    // Its own count, when it was closed: nothing was made ahead.
    expect([stream.chunks.length, Number(readFileSync(note, "utf8"))]).toEqual([paid, paid]);
  });

  test("a chunk larger than all credit is sent, and the next when its price has been granted", async () => {
    const pool = shared();
    const note = noteFile();
    const size = 1024 * 1024;
    const stream = new StreamCall(pool, "count", { n: 3, note, size }, false);
    await stream.has(1);
    stream.grant(frameBytes(size) - INITIAL_CREDIT_BYTES);
    if (concurrency > 1) {
      const other = new StreamCall(pool, "endless", { note: noteFile() }, true);
      await other.has(1);
      other.cancel();
      // A cancel goes the way of the credit, behind it.
      await until("the cancel was heard", () => pool.ready.every(({ calls }) => calls.size === 1));
    }
    expect([stream.chunks.length, readFileSync(note, "utf8")]).toEqual([1, "1"]);
    stream.grant(1);
    await stream.has(2);
    stream.grant(2 * frameBytes(size));
    expect((await stream.end()).kind).toBe("streamed");
    expect(stream.chunks.map(({ bytes }) => bytes.toString().trim())).toEqual(["1", "2", "3"]);
  });

  test("20,000 chunks arrive in order and complete, however the credit comes", async () => {
    const pool = shared();
    const stream = new StreamCall(pool, "count", { n: 20_000 }, false);
    for (let round = 1; stream.outcome === null; round++) {
      // Grants of a few bytes and of all that is owed, in no step with the chunks.
      const share = ((round * 7919) % 101) / 100;
      if (stream.owedBytes > 0) stream.grant(Math.max(1, Math.floor(stream.owedBytes * share)));
      await turn();
    }
    expect(stream.outcome.kind).toBe("streamed");
    expect(stream.chunks).toHaveLength(20_000);
    const wrong = stream.chunks.findIndex(({ bytes }, index) => bytes.toString() !== String(index + 1));
    expect(wrong).toBe(-1);
  });

  test.each([
    ["sleeps", false],
    ["computes", true],
  ])("a chunk leaves at once although its generator then %s", async (_title, computes) => {
    const opened = gates(3);
    const stream = new StreamCall(shared(), "pairs", { gates: opened, computes }, true);
    for (const [index, gate] of opened.entries()) {
      // The generator goes on only when its chunks are here.
      await stream.has(2 * (index + 1));
      writeFileSync(gate, "");
    }
    expect((await stream.end()).kind).toBe("streamed");
    expect(stream.chunks).toHaveLength(6);
  });

  test("a cancel ends a generator that is in full flow, each time, and its finally runs", async () => {
    const pool = shared();
    for (let round = 0; round < 10; round++) {
      const note = noteFile();
      const stream = new StreamCall(pool, "flood", { note }, true);
      await stream.has(round * 700 + 1);
      stream.cancel();
      await until("its finally has run", () => existsSync(note));
      await until("its slot is free", () => pool.ready.every(({ calls }) => calls.size === 0));
    }
    expect(pool.exits).toEqual([]);
    expect((await new StreamCall(pool, "plain", {}, true).end()).kind).toBe("returned");
  });

  test("a `def` that gives an asynchronous iterator is told so by type", async () => {
    const pool = shared();
    expect(await new StreamCall(pool, "asynchronous", {}, true).end()).toMatchObject({
      kind: "unsendable",
      message: "result is of type async_generator, which JSON cannot hold",
    });
  });
});

describe.each([
  ["def", DEF],
  ["def beside async def", BESIDE],
  ["async def", ASYNC],
])("eight at a time, by %s", (_, main) => {
  test("streams, plain calls and streams that wait for credit do not mix or hold each other", async () => {
    const pool = await testPool({ main, toml: toml(8) });
    const size = 1000;
    const waiting = Array.from({ length: 4 }, () => new StreamCall(pool, "count", { n: 100, size }, false));
    await until("four wait for credit", () =>
      waiting.every(({ chunks }) => chunks.length === firstChunks(size)),
    );
    const streams = Array.from(
      { length: 8 },
      (__, index) => new StreamCall(pool, "count", { n: 5000 + index }, true),
    );
    const plain = Array.from({ length: 40 }, () => new StreamCall(pool, "plain", {}, true));
    for (const stream of [...streams, ...plain]) await stream.end();
    for (const [index, { values }] of streams.entries()) {
      expect(values).toEqual(Array.from({ length: 5000 + index }, (__, at) => `json ${at + 1}`));
    }
    for (const { outcome, values } of plain) expect([outcome?.kind, values]).toEqual(["returned", []]);
    for (const stream of waiting) {
      expect(stream.chunks).toHaveLength(firstChunks(size));
      stream.grant(stream.owedBytes);
      expect((await stream.end()).kind).toBe("streamed");
      expect(stream.chunks).toHaveLength(100);
    }
  });
});

test("an async generator that never lets go of the loop keeps no other call waiting, and can be cancelled", async () => {
  const pool = await testPool({ main: ASYNC, toml: toml(4) });
  const note = noteFile();
  const hog = new StreamCall(pool, "hog", { note }, true);
  await hog.has(1);
  expect((await new StreamCall(pool, "plain", {}, true).end()).kind).toBe("returned");
  hog.cancel();
  await until("its finally has run", () => existsSync(note));
});
