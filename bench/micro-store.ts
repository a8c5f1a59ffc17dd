// oxlint-disable unicorn/require-post-message-target-origin -- these are threads, not windows
// What storing runs costs, on SQLite in a temporary directory: `node bench/micro-store.ts`.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MessageChannel, receiveMessageOnPort } from "node:worker_threads";
import type { Payload } from "../src/model/run.ts";
import { openSession } from "../src/store/sqlite/session.ts";
import { packEnded } from "../src/store/runs/ended-runs.ts";
import { runs } from "../src/store/runs/runs.ts";
import { openStore } from "../src/store/store.ts";
import { queuedRun, sampleEnd, samplePayload, sampleRun } from "../test/support/sample-run.ts";

const ROWS = 200;
const ROUNDS = 150;
const ACCEPTS = 64;
const ACCEPT_ROUNDS = 200;
const OWNER = { owner: "bench" };

const dir = mkdtempSync(join(tmpdir(), "millrace-micro-store-"));
process.on("exit", () => rmSync(dir, { recursive: true, force: true }));

const PAYLOADS: Record<string, Payload | null> = {
  "no payload": null,
  "40 + 90 bytes": payload(40, 90),
  "1 + 2 KiB": payload(1_024, 2_048),
  "64 + 64 KiB": payload(65_536, 65_536),
};

function payload(inputBytes: number, resultBytes: number): Payload {
  const [input, result] = [Buffer.alloc(inputBytes, "i"), Buffer.alloc(resultBytes, "r")];
  return samplePayload({ input, result, contentType: "application/json" });
}

function median(values: number[]): string {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!.toFixed(2);
}

console.log(`insertFinished, µs a run, medians of batches of ${ROWS}`);
for (const [name, kept] of Object.entries(PAYLOADS)) {
  const session = await openSession("write", join(dir, `${name}.db`));
  const { port1, port2 } = new MessageChannel();
  const packing: number[] = [];
  const writing: number[] = [];
  const committing: number[] = [];
  const rounds = name.startsWith("64") ? ROUNDS / 5 : ROUNDS;
  for (let round = 0; round < rounds; round++) {
    const ends = Array.from({ length: ROWS }, () => sampleEnd(sampleRun(), { payload: kept }));
    const start = performance.now();
    const batch = runs.insertFinished.pack([packEnded(ends)]);
    port1.postMessage(batch);
    const packed = performance.now();
    const received = receiveMessageOnPort(port2)?.message;
    session.database.exec("begin immediate");
    const began = performance.now();
    await runs.insertFinished.run(session, received);
    const written = performance.now();
    session.database.exec("commit");
    packing.push(((packed - start) * 1_000) / ROWS);
    writing.push(((written - began) * 1_000) / ROWS);
    committing.push(((performance.now() - written) * 1_000) / ROWS);
  }
  port1.close();
  await session.db.destroy();
  console.log(
    `  ${name.padEnd(14)} packing ${median(packing)}  writer ${median(writing)}  commit ${median(committing)}`,
  );
}

const store = await openStore({ databaseUrl: null, dataDir: join(dir, "store") });
const accepted = Array.from({ length: ACCEPTS * ACCEPT_ROUNDS }, () => ({
  run: queuedRun(),
  payload: samplePayload({ input: Buffer.alloc(40, "i") }),
  owner: null,
}));
const acceptTimes: number[] = [];
const startedAt = performance.now();
for (let at = 0; at < accepted.length; at += ACCEPTS) {
  const sentAt = performance.now();
  await store.runs.accept(accepted.slice(at, at + ACCEPTS));
  acceptTimes.push(performance.now() - sentAt);
}
report("accept, one batch after the other", accepted.length, performance.now() - startedAt);
console.log(`  a batch of ${ACCEPTS}, median ${median(acceptTimes)} ms`);

const result = { bytes: Buffer.alloc(90, "r"), contentType: "application/json" };
const spans = { claim: 0, finish: 0 };
for (let done = 0; done < accepted.length;) {
  const began = performance.now();
  const claimed = await store.claims.claim({ appNumber: 1, limit: ACCEPTS, maxBytes: 1 << 20, ...OWNER });
  const claimedAt = performance.now();
  const finals = claimed.runs.map(({ run, fence }) => ({
    run: { ...run, state: "success" as const, statusCode: 200 },
    fence,
    owner: OWNER.owner,
    result,
    part: null,
    delivery: null,
  }));
  done += (await store.claims.finish(finals)).length;
  spans.claim += claimedAt - began;
  spans.finish += performance.now() - claimedAt;
}
report("claim", accepted.length, spans.claim);
report("finish", accepted.length, spans.finish);
await store.close();

function report(name: string, rows: number, ms: number): void {
  const perSecond = Math.round((rows / ms) * 1_000).toLocaleString("en");
  console.log(`${name}: ${perSecond} runs/s, ${((ms * 1_000) / rows).toFixed(1)} µs a run`);
}
