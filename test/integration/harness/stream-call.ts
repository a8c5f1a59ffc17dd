import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";
import { Condition } from "../../../src/kit/concurrency.ts";
import type { Outcome } from "../../../src/model/outcome.ts";
import { Call, type Chunk } from "../../../src/replicas/call.ts";
import { HEAD_BYTES, INITIAL_CREDIT_BYTES } from "../../../src/replicas/frames.ts";
import type { TestPool } from "../../support/pool.ts";
import { until } from "../../support/until.ts";

/** What a chunk of so many bytes costs: its frame's head, the byte that tells text from JSON, and itself. */
export function frameBytes(chunkBytes: number): number {
  return HEAD_BYTES + 1 + chunkBytes;
}

/** How many chunks of one size a generator sends for the credit it starts with. */
export function firstChunks(chunkBytes: number): number {
  return Math.ceil(INITIAL_CREDIT_BYTES / frameBytes(chunkBytes));
}

/** A call whose chunks a test collects; credit is granted only when the test says so, unless it is eager. */
export class StreamCall {
  readonly chunks: Chunk[] = [];
  /** What the chunks that came have cost and was not granted again. */
  owedBytes = 0;
  streams = 0;
  outcome: Outcome | null = null;
  readonly call: Call;
  readonly #pool: TestPool;
  /** Notified for every chunk, and at the end. */
  readonly #news = new Condition();

  constructor(pool: TestPool, functionName: string, args: object, isEager: boolean) {
    this.#pool = pool;
    this.call = new Call(randomUUID(), functionName, Buffer.from(JSON.stringify(args)), {
      onStream: () => (this.streams += 1),
      onChunk: (chunk) => {
        this.chunks.push({ ...chunk, bytes: Buffer.from(chunk.bytes) });
        this.owedBytes += frameBytes(chunk.bytes.length);
        if (isEager && this.owedBytes > INITIAL_CREDIT_BYTES / 4) this.grant(this.owedBytes);
        this.#news.notify();
      },
      onEnd: (outcome) => {
        this.outcome = outcome;
        this.#news.notify();
      },
    });
    pool.pool.slots.submit(this.call);
  }

  grant(bytes: number): void {
    this.owedBytes -= bytes;
    this.call.holder?.grant(this.call, bytes);
  }

  cancel(): void {
    this.#pool.pool.slots.abandon(this.call, { kind: "cancelled" });
  }

  /** Waits until so many chunks have come. */
  async has(count: number): Promise<void> {
    await until(`${count} chunks`, () => this.chunks.length >= count, this.#news);
  }

  async end(): Promise<Outcome> {
    await until("the end of the stream", () => this.outcome !== null, this.#news);
    return this.outcome ?? { kind: "cancelled" };
  }

  /** Texts as they are, everything else as its JSON. */
  get values(): string[] {
    return this.chunks.map(({ isText, bytes }) => `${isText ? "text" : "json"} ${bytes.toString()}`);
  }
}

/** A path that nothing is at yet, for an app to leave word at. */
export function noteFile(): string {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-note-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return path.join(folder, "note");
}

/** Paths that nothing is at yet: gates that an app waits at until a test opens them. */
export function gates(count: number): string[] {
  return Array.from({ length: count }, () => noteFile());
}
