import { expect, test } from "vitest";
import { AppError } from "../../../src/model/errors.ts";
import type { Outcome } from "../../../src/model/outcome.ts";
import type { Store } from "../../../src/store/store.ts";
import { until } from "../../support/until.ts";
import { CLOCK, partsByHand } from "./by-hand.ts";
import type { ByHand } from "./by-hand.ts";

const byHand = partsByHand();
const DIED: Outcome = { kind: "died", detail: "exit code 1" };
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
  await parts.keeper.stop();
  expect(await parts.find(id)).toMatchObject({ state: "queued", attempt: 2, interruptions: 0 });
  const next = parts.next();
  await next.dispatcher.start();
  await until("it came again", () => next.pool.calls.length === 1);
  next.dispatcher.stop();
  next.pool.finish(DRAINING);
  await next.keeper.stop();
  expect(await parts.find(id)).toMatchObject({ state: "queued", attempt: 2, interruptions: 1 });
});

test("a run that never began is no interruption when the service stops", async () => {
  const parts = byHand();
  const id = await submitted(parts);
  parts.dispatcher.stop();
  parts.pool.calls[0]!.handedAt = 0;
  parts.pool.finish(DRAINING);
  await parts.keeper.stop();
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
  const nobody = { onStream: () => undefined, onChunk: () => undefined, onEnd: () => undefined };
  const keyed = await parts.submitter.executeKeyed(parts.request("{}"), mark, nobody);
  expect(keyed.kind).toBe("accepted");
  parts.pool.calls[0]!.handedAt = 0;
  parts.pool.finish({ kind: "refused", code: "queue_full" });
  await parts.keeper.stop();
  expect(order).toEqual(["forget", "finish"]);
  expect((await parts.submitter.executeKeyed(parts.request("{}"), mark, nobody)).kind).toBe("accepted");
  parts.pool.finish();
  await parts.keeper.stop();
  const third = await parts.submitter.executeKeyed(parts.request("{}"), mark, nobody);
  expect([third.kind, order.length]).toEqual(["same", 3]);
});
