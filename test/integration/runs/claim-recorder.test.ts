import { expect, test } from "vitest";
import { AppError } from "../../../src/model/errors.ts";
import type { Outcome } from "../../../src/model/outcome.ts";
import type { Chunk } from "../../../src/replicas/call.ts";
import type { FinishedClaim } from "../../../src/store/runs/final-runs.ts";
import type { Store } from "../../../src/store/store.ts";
import { until } from "../../support/until.ts";
import { type ByHand, CLOCK, partsByHand } from "./by-hand.ts";

const byHand = partsByHand();
const DIED: Outcome = { kind: "died", detail: "exit code 1" };
const NOBODY = { onStream: () => undefined, onChunk: () => undefined, onEnd: () => undefined };
const DRAINING: Outcome = { kind: "refused", code: "draining" };

async function submitted(parts: ByHand): Promise<string> {
  const request = parts.request("{}");
  await parts.submitter.submit(request);
  await until("it came", () => parts.pool.calls.at(-1)?.runId === request.id);
  return request.id;
}

test("an end that the store refuses is written when it takes it", async () => {
  let refusals = 0;
  const parts = byHand((store: Store) => ({
    ...store,
    claims: {
      ...store.claims,
      finish: async (batch) => {
        if (refusals++ < 1) throw new AppError("storage_unavailable");
        return await store.claims.finish(batch);
      },
    },
  }));
  const id = await submitted(parts);
  parts.pool.finish();
  await until("it was refused", () => refusals === 1);
  expect((await parts.find(id))?.state).toBe("running");
  await until("it is stored", async () => {
    CLOCK.skip(1_000);
    return (await parts.find(id))?.state === "success";
  });
  expect(refusals).toBe(2);
});

test("a replica's death uses an attempt, the service's stop none", async () => {
  const parts = byHand();
  const id = await submitted(parts);
  parts.dispatcher.stop();
  parts.pool.finish(DIED);
  await parts.recorder.stop();
  expect(await parts.find(id)).toMatchObject({ state: "queued", attempt: 2, interruptions: 0 });
  const next = parts.next();
  await next.dispatcher.start();
  await until("it came again", () => next.pool.calls.length === 1);
  next.dispatcher.stop();
  next.pool.finish(DRAINING);
  await next.recorder.stop();
  expect(await parts.find(id)).toMatchObject({ state: "queued", attempt: 2, interruptions: 1 });
});

test("a run that never began is no interruption when the service stops", async () => {
  const parts = byHand();
  const id = await submitted(parts);
  parts.dispatcher.stop();
  parts.pool.calls[0]!.handedAt = 0;
  parts.pool.finish(DRAINING);
  await parts.recorder.stop();
  expect(await parts.find(id)).toMatchObject({ state: "queued", attempt: 1, interruptions: 0 });
});

test("a key is free before the refusal of its run can be seen", async () => {
  const order: string[] = [];
  const parts = byHand((store: Store) => ({
    ...store,
    keys: {
      ...store.keys,
      forget: async (key) => {
        order.push("forget");
        await store.keys.forget(key);
      },
    },
    claims: {
      ...store.claims,
      finish: async (batch) => {
        order.push("finish");
        return await store.claims.finish(batch);
      },
    },
  }));
  const mark = { keyHash: Buffer.alloc(32, 1), fingerprint: Buffer.alloc(32, 2) };
  const keyed = await parts.submitter.executeKeyed(parts.request("{}"), mark, NOBODY);
  expect(keyed.kind).toBe("accepted");
  parts.pool.calls[0]!.handedAt = 0;
  parts.pool.finish({ kind: "refused", code: "queue_full" });
  await parts.recorder.stop();
  expect(order).toEqual(["forget", "finish"]);
  expect((await parts.submitter.executeKeyed(parts.request("{}"), mark, NOBODY)).kind).toBe("accepted");
  parts.pool.finish();
  await parts.recorder.stop();
  const third = await parts.submitter.executeKeyed(parts.request("{}"), mark, NOBODY);
  expect([third.kind, order.length]).toEqual(["same", 3]);
});

const chunk = (text: string): Chunk => ({ isText: true, bytes: Buffer.from(text), wireBytes: text.length });

test("a webhook gets the whole stream, though its first part could not be read at once", async () => {
  let reads = 0;
  let finished: readonly FinishedClaim[] = [];
  const parts = byHand((store: Store) => ({
    ...store,
    transcripts: {
      ...store.transcripts,
      next: async (query) => {
        reads += 1;
        if (reads === 1) throw new AppError("storage_unavailable");
        return await store.transcripts.next(query);
      },
    },
    claims: {
      ...store.claims,
      finish: async (batch) => {
        finished = batch;
        return await store.claims.finish(batch);
      },
    },
  }));
  const webhook = { endpoint: "https://example.test/hook", sealedSecret: null };
  const run = await parts.submitter.executeKept({ ...parts.request("{}"), webhook }, NOBODY);
  const long = "x".repeat(20_000);
  run.onStream();
  run.onChunk(chunk(long));
  run.onChunk(chunk("last"));
  await run.transcript().settle();
  parts.pool.finish({ kind: "streamed", runMs: 1 });
  await until("it is stored", async () => {
    CLOCK.skip(1_000);
    return (await parts.find(run.request.id))?.state === "success";
  });
  const { delivery } = finished[0]!;
  expect([delivery?.runStatus, String(delivery?.body)]).toEqual([200, `data: ${long}\n\ndata: last\n\n`]);
});

test("of a slow stream that is not kept as much can be followed as of one that nobody comes back for", async () => {
  const parts = byHand();
  const { target, submitter } = parts;
  const deployment = { ...target.config.deployment, recordPayloads: "none" as const };
  const request = { ...parts.request("{}"), target: { ...target, config: { ...target.config, deployment } } };
  const run = await submitter.executeKept(request, NOBODY);
  run.onStream();
  for (const text of ["a", "b", "c", "d"]) {
    run.onChunk(chunk(text));
    CLOCK.skip(500);
  }
  const chunks = await run.transcript().read(0);
  expect(chunks?.map(({ event, bytes }) => [event, String(bytes)])).toEqual([
    [1, "a"],
    [2, "b"],
    [3, "c"],
    [4, "d"],
  ]);
  parts.pool.finish({ kind: "streamed", runMs: 1 });
});
