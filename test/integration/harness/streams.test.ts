import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { tmpdir } from "node:os";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Outcome } from "../../../src/model/outcome.ts";
import { Call } from "../../../src/replicas/call.ts";
import type { Chunk } from "../../../src/replicas/call.ts";
import { INITIAL_CREDIT } from "../../../src/replicas/frames.ts";
import { testPool } from "../../support/pool.ts";
import type { TestPool } from "../../support/pool.ts";
import { until } from "../../support/service.ts";
import { ASYNC, DEF } from "./stream-apps.ts";

/** A call whose chunks a test collects; credit is granted only when the test says so. */
class Stream {
  readonly chunks: Chunk[] = [];
  streams = 0;
  outcome: Outcome | null = null;
  readonly call: Call;
  readonly #pool: TestPool;

  constructor(pool: TestPool, functionName: string, args: object, isEager: boolean) {
    this.#pool = pool;
    this.call = new Call(randomUUID(), functionName, Buffer.from(JSON.stringify(args)), {
      onStream: () => (this.streams += 1),
      onChunk: (chunk) => {
        this.chunks.push({ ...chunk, bytes: Buffer.from(chunk.bytes) });
        if (isEager) this.grant(1);
      },
      onEnd: (outcome) => (this.outcome = outcome),
    });
    pool.pool.submit(this.call);
  }

  grant(chunks: number): void {
    this.call.holder?.grant(this.call, chunks);
  }

  cancel(): void {
    this.#pool.pool.abandon(this.call, { kind: "cancelled" });
  }

  async end(): Promise<Outcome> {
    await until("the stream has ended", () => this.outcome !== null);
    return this.outcome ?? { kind: "cancelled" };
  }

  /** Texts as they are, everything else as its JSON. */
  get values(): string[] {
    return this.chunks.map(({ isText, bytes }) => `${isText ? "text" : "json"} ${bytes.toString()}`);
  }
}

function noteFile(): string {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-note-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return path.join(folder, "note");
}

describe.each([
  ["def, one at a time", DEF, 1],
  ["def, several at a time", DEF, 4],
  ["async def", ASYNC, 1],
  ["async def, several at a time", ASYNC, 4],
])("%s", (_, main, concurrency) => {
  const start = () =>
    testPool({ main, toml: `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${concurrency}\n` });

  test("generators and iterators send every chunk in order, then the end", async () => {
    const pool = await start();
    const read = async (name: string, args: object = {}): Promise<Stream> => {
      const stream = new Stream(pool, name, args, true);
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
    const pool = await start();
    const raised = new Stream(pool, "raises", {}, true);
    expect(await raised.end()).toMatchObject({ kind: "raised", message: "ValueError: after the first" });
    expect(raised.values).toEqual(["json 1"]);
    expect(await new Stream(pool, "first_raises", {}, true).end()).toMatchObject({ kind: "raised" });
    const note = noteFile();
    const unsendable = new Stream(pool, "not_json", { note }, true);
    expect(await unsendable.end()).toMatchObject({ kind: "unsendable", code: "result_not_json" });
    await until("the generator was closed", () => existsSync(note));
    const large = await new Stream(pool, "too_large", {}, true).end();
    expect(large).toMatchObject({ kind: "unsendable", code: "result_too_large" });
    expect((await new Stream(pool, "plain", {}, true).end()).kind).toBe("returned");
  });

  test("a generator stops when its credit is used up, and goes on by as much as is granted", async () => {
    const pool = await start();
    const note = noteFile();
    const stream = new Stream(pool, "count", { n: 100, note }, false);
    const made = () => Number(existsSync(note) ? readFileSync(note, "utf8") : 0);
    await until("the first credit is used", () => stream.chunks.length === INITIAL_CREDIT);
    if (concurrency > 1) await new Stream(pool, "iterator", {}, true).end();
    expect([made(), stream.chunks.length]).toEqual([INITIAL_CREDIT, INITIAL_CREDIT]);
    stream.grant(5);
    await until("the granted chunks are here", () => stream.chunks.length === INITIAL_CREDIT + 5);
    // A later answer on the same wire: nothing more was on its way.
    expect(made()).toBe(INITIAL_CREDIT + 5);
    stream.grant(100);
    expect((await stream.end()).kind).toBe("streamed");
    expect(stream.chunks).toHaveLength(100);
  });

  test("a cancel closes a generator that waits for credit: its finally runs, and the slot is free", async () => {
    const pool = await start();
    const note = noteFile();
    const stream = new Stream(pool, "count", { n: 100, note }, false);
    await until("the first credit is used", () => stream.chunks.length === INITIAL_CREDIT);
    stream.cancel();
    expect((await stream.end()).kind).toBe("cancelled");
    await until("its finally has run", () => existsSync(`${note}.closed`));
    expect((await new Stream(pool, "plain", {}, true).end()).kind).toBe("returned");
    expect(pool.exits).toEqual([]);
  });

  test("a cancel closes an iterator that is no generator", async () => {
    const pool = await start();
    const note = noteFile();
    const stream = new Stream(pool, "custom", { note }, false);
    await until("the first credit is used", () => stream.chunks.length === INITIAL_CREDIT);
    stream.cancel();
    await until("it was closed", () => existsSync(note));
    expect((await new Stream(pool, "plain", {}, true).end()).kind).toBe("returned");
  });

  test("a cancel ends a generator in the middle of its work, and no chunk comes after", async () => {
    const pool = await start();
    const note = noteFile();
    const stream = new Stream(pool, "endless", { note }, true);
    await until("it has begun", () => stream.chunks.length === 1);
    stream.cancel();
    await until("its finally has run", () => existsSync(note));
    expect((await new Stream(pool, "plain", {}, true).end()).kind).toBe("returned");
    expect(stream.chunks).toHaveLength(1);
    expect(pool.exits).toEqual([]);
  });

  test("a generator that yields after it was closed harms nobody", async () => {
    const pool = await start();
    const stream = new Stream(pool, "count", { n: 100 }, false);
    await until("the first credit is used", () => stream.chunks.length === INITIAL_CREDIT);
    const stubborn = new Stream(pool, "stubborn", {}, false);
    if (concurrency > 1) await until("it has ended", () => stubborn.outcome !== null);
    stream.cancel();
    stubborn.cancel();
    await stubborn.end();
    expect((await new Stream(pool, "plain", {}, true).end()).kind).toBe("returned");
  });
});

test("streams and plain calls of one replica do not mix", async () => {
  const toml = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 8\n";
  const pool = await testPool({ main: DEF, toml });
  const streams = Array.from({ length: 8 }, (_, index) => new Stream(pool, "count", { n: 50 + index }, true));
  const plain = Array.from({ length: 20 }, () => new Stream(pool, "plain", {}, true));
  for (const stream of [...streams, ...plain]) await stream.end();
  for (const [index, { values }] of streams.entries()) {
    expect(values).toEqual(Array.from({ length: 50 + index }, (_, at) => `json ${at + 1}`));
  }
  for (const { values } of plain) expect(values).toEqual([]);
});
