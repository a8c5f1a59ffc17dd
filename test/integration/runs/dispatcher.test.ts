import { expect, test } from "vitest";
import { uuidv7 } from "../../support/ids.ts";
import { AppError } from "../../../src/model/errors.ts";
import { until } from "../../support/until.ts";
import { CLOCK, HandPool, partsByHand } from "./by-hand.ts";

const byHand = partsByHand();

test("it claims as many as there is room for, oldest first, and goes on as they end", async () => {
  const parts = byHand();
  const { submitter, pool } = parts;
  pool.room = 0;
  for (let n = 0; n < 5; n++) await submitter.submit(parts.request(String(n)));
  pool.room = 2;
  parts.dispatcher.wake(parts.target.appNumber);
  await until("two came", () => pool.calls.length === 2);
  for (let n = 3; n <= 5; n++) {
    pool.finish();
    await until(`${n} came`, () => pool.calls.length === n);
  }
  expect(pool.came).toEqual(["0", "1", "2", "3", "4"]);
});

test("a slot that becomes free is filled, though many others go on", async () => {
  const parts = byHand((store) => store, { maxReplicas: 10 });
  const { submitter, pool } = parts;
  pool.room = 10;
  for (let n = 0; n < 12; n++) await submitter.submit(parts.request(String(n)));
  await until("ten came", () => pool.calls.length === 10);
  pool.finish();
  await until("the eleventh came", () => pool.calls.length === 11);
});

test("short runs that wait ahead of the slots are claimed many at a time", async () => {
  let claims = 0;
  const parts = byHand((store) => ({
    ...store,
    claims: {
      ...store.claims,
      claim: async (query) => {
        claims += 1;
        return await store.claims.claim(query);
      },
    },
  }));
  const { submitter, pool } = parts;
  pool.room = 0;
  await Promise.all(Array.from({ length: 300 }, (_, n) => submitter.submit(parts.request(String(n)))));
  pool.room = 100;
  parts.dispatcher.wake(parts.target.appNumber);
  while (pool.calls.length < 300 || pool.calls.some(({ hasEnded }) => !hasEnded)) {
    pool.finish();
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(claims).toBeLessThan(30);
});

test("a claim that the store refuses is tried again", async () => {
  let refusals = 0;
  const parts = byHand((store) => ({
    ...store,
    claims: {
      ...store.claims,
      claim: async (query) => {
        if (refusals++ < 1) throw new AppError("storage_unavailable");
        return await store.claims.claim(query);
      },
    },
  }));
  const { submitter, pool, dispatcher } = parts;
  await dispatcher.start();
  pool.room = 0;
  await submitter.submit(parts.request("kept"));
  pool.room = 1;
  dispatcher.wake(parts.target.appNumber);
  await until("it was refused", () => refusals === 1);
  expect(pool.calls).toEqual([]);
  await until("it came", () => {
    CLOCK.skip(1_000);
    return pool.calls.length === 1;
  });
  expect([refusals, pool.came]).toEqual([2, ["kept"]]);
});

test("after a stop nothing is claimed, and a run that is accepted waits in the store", async () => {
  const parts = byHand();
  const { submitter, pool, dispatcher } = parts;
  dispatcher.stop();
  const request = parts.request("late");
  await submitter.submit(request);
  expect((await parts.find(request.id))?.state).toBe("queued");
  expect(pool.calls).toEqual([]);
});

test("what a service before left under way is queued again at the start, each with an interruption", async () => {
  const parts = byHand();
  const { submitter, pool, dispatcher } = parts;
  const request = parts.request("again");
  await submitter.submit(request);
  await until("it came", () => pool.calls.length === 1);
  // Another service, as far as the store can tell, on the same database.
  const next = parts.next();
  await next.dispatcher.start();
  await until("it came again", () => next.pool.calls.length === 1);
  const run = await parts.find(request.id);
  expect([run?.state, run?.attempt, run?.interruptions]).toEqual(["running", 1, 1]);
  // The late end of the first one changes nothing.
  pool.finish({ kind: "cancelled" });
  await parts.recorder.stop();
  expect((await parts.find(request.id))?.state).toBe("running");
  next.pool.finish();
  await next.recorder.stop();
  expect((await parts.find(request.id))?.state).toBe("success");
  next.dispatcher.stop();
  dispatcher.stop();
});

test("a run goes to the version that accepted it, and what waits there takes places of the others", async () => {
  const parts = byHand();
  const { submitter, pool, dispatcher, target } = parts;
  const before = new HandPool();
  const earlier = { ...target, versionId: uuidv7(1), slots: before };
  pool.room = 0;
  for (let n = 0; n < 6; n++) {
    await submitter.submit({ ...parts.request(String(n)), target: n < 5 ? earlier : target });
  }
  parts.earlier.set(earlier.versionId, earlier);
  pool.room = 2;
  dispatcher.wake(target.appNumber);
  await until("two came", () => before.calls.length === 2);
  for (let n = 3; n <= 5; n++) {
    expect(before.calls.length).toBe(n - 1);
    before.finish();
    await until(`${n} came`, () => before.calls.length === n);
  }
  before.finish();
  await until("the last one came", () => pool.calls.length === 1);
  expect([before.came, pool.came]).toEqual([["0", "1", "2", "3", "4"], ["5"]]);
});

test("a run whose version is gone goes to the current one; one that cannot be looked for waits again", async () => {
  const parts = byHand();
  const { submitter, pool, dispatcher, target } = parts;
  pool.room = 0;
  const request = { ...parts.request("old"), target: { ...target, versionId: uuidv7(1) } };
  await submitter.submit(request);
  parts.lookFor = () => Promise.reject(new AppError("storage_unavailable"));
  pool.room = 1;
  dispatcher.wake(target.appNumber);
  await until("it was looked for", () => parts.looks > 0);
  expect(pool.calls).toEqual([]);
  parts.lookFor = null;
  await until("it came", () => pool.calls.length === 1);
  expect(await parts.find(request.id)).toMatchObject({ state: "running", attempt: 1, interruptions: 0 });
});

test("runs of an app that is not there are left to the one who ends them", async () => {
  const parts = byHand();
  const { submitter, pool, dispatcher } = parts;
  pool.room = 0;
  await submitter.submit(parts.request("left"));
  pool.room = 1;
  parts.isGone = true;
  dispatcher.wake(parts.target.appNumber);
  await until("they are to be ended", () => parts.orphaned.length > 0);
  expect([parts.orphaned[0], pool.calls]).toEqual([parts.target.appNumber, []]);
});

test("while the queue is paused nothing is claimed, and what was claimed and not handed over goes back", async () => {
  const parts = byHand();
  const { submitter, dispatcher, executor, pool, target } = parts;
  pool.room = 5;
  const claimed = parts.request("claimed");
  await submitter.submit(claimed);
  await until("it came", () => pool.calls.length === 1);
  // No replica has it yet.
  pool.calls[0]!.handedAt = 0;
  parts.isPaused = true;
  executor.putBack(target.appNumber);
  await until("it waits again", async () => (await parts.find(claimed.id))?.state === "queued");
  expect(await parts.find(claimed.id)).toMatchObject({ attempt: 1, interruptions: 0 });
  // Neither past the empty queue nor out of it.
  await submitter.submit(parts.request("later"));
  dispatcher.wake(target.appNumber);
  expect(pool.came).toEqual(["claimed"]);
  parts.isPaused = false;
  dispatcher.wake(target.appNumber);
  await until("both came", () => pool.calls.length === 3);
  expect(pool.came).toEqual(["claimed", "claimed", "later"]);
});

test("a run whose claim was on its way when the queue was paused goes back", async () => {
  let onClaim = (): void => undefined;
  const parts = byHand((store) => ({
    ...store,
    claims: {
      ...store.claims,
      claim: async (query) => {
        const claimed = await store.claims.claim(query);
        onClaim();
        return claimed;
      },
    },
  }));
  const { submitter, dispatcher, pool, target } = parts;
  pool.room = 0;
  const request = parts.request("late");
  await submitter.submit(request);
  onClaim = () => (parts.isPaused = true);
  pool.room = 1;
  dispatcher.wake(target.appNumber);
  await until("it was paused", () => parts.isPaused);
  await until("it waits again", async () => {
    const run = await parts.find(request.id);
    return run?.state === "queued" && parts.executor.claimed().size === 0;
  });
  expect([pool.came, (await parts.find(request.id))?.interruptions]).toEqual([[], 0]);
});

test("a queue that is drained takes no runs", async () => {
  const parts = byHand();
  parts.isDraining = true;
  const refusal = { code: "queue_draining", detail: { headers: { "retry-after": "60" } } };
  await expect(parts.submitter.submit(parts.request("1"))).rejects.toMatchObject(refusal);
});
