import { setImmediate } from "node:timers/promises";
import { expect } from "vitest";
import { AppError } from "../../../src/model/errors.ts";
import type { InDoubt } from "../../../src/runs/acceptor.ts";
import type { RunReader } from "../../../src/runs/live-run.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { CLOCK, partsByHand } from "./by-hand.ts";

const byHand = partsByHand();

const READER: RunReader = { onStream: () => undefined, onChunk: () => undefined, onEnd: () => undefined };
const MINUTE_MS = 60_000;
const lost = () => new AppError("in_doubt", {}, new Error("Connection terminated unexpectedly"));

verifies(
  "async.claim-review",
  "runs of a claim that was done though the store refused it are executed, once",
  async () => {
    let refusals = 0;
    const parts = byHand((store) => ({
      ...store,
      claims: {
        ...store.claims,
        claim: async (query) => {
          const claimed = await store.claims.claim(query);
          if (claimed.runs.length > 0 && refusals++ === 0) throw new AppError("storage_unavailable");
          return claimed;
        },
      },
    }));
    const { submitter, dispatcher, pool, recorder } = parts;
    await dispatcher.start();
    pool.room = 0;
    const request = parts.request("kept");
    await submitter.submit(request);
    pool.room = 1;
    dispatcher.wake(parts.target.appNumber);
    await until("it is ours, and nobody knows", () => refusals === 1);
    await until("it came", () => {
      CLOCK.skip(MINUTE_MS);
      return pool.calls.length > 0;
    });
    CLOCK.skip(MINUTE_MS);
    pool.finish();
    await recorder.settle();
    expect(pool.came).toEqual(["kept"]);
    expect(await parts.find(request.id)).toMatchObject({ state: "success", attempt: 1, interruptions: 0 });
  },
);

verifies(
  "async.claim-review",
  "a call to come back for that is stored though the store refused it ends as interrupted",
  async () => {
    const parts = byHand((store) => ({
      ...store,
      runs: {
        ...store.runs,
        accept: async (batch) => {
          await store.runs.accept(batch);
          throw new AppError("storage_unavailable");
        },
      },
    }));
    const { submitter, dispatcher, pool } = parts;
    await dispatcher.start();
    const request = parts.request("refused");
    await expect(submitter.executeKept(request, READER)).rejects.toMatchObject({
      code: "storage_unavailable",
    });
    expect((await parts.find(request.id))?.state).toBe("running");
    await until("it has ended", async () => {
      CLOCK.skip(MINUTE_MS);
      return (await parts.find(request.id))?.state === "failure";
    });
    expect([(await parts.find(request.id))?.errorCode, pool.calls]).toEqual(["interrupted", []]);
  },
);

verifies(
  "async.adopted",
  "a call that becomes async while its commit and a claim are in doubt is not taken for one that nobody executes",
  async () => {
    let isKnown = false;
    let [lostClaims, reviews] = [0, 0];
    const parts = byHand((store) => ({
      ...store,
      claims: {
        ...store.claims,
        claim: async (query) => {
          if (lostClaims++ === 0) throw lost();
          return await store.claims.claim(query);
        },
        held: async (query) => {
          const held = await store.claims.held(query);
          reviews += query.appNumber === null ? 1 : 0;
          return held;
        },
      },
      runs: {
        ...store.runs,
        accept: async (batch) => {
          await store.runs.accept(batch);
          if (!isKnown && batch.some(({ owner }) => owner !== null)) throw lost();
        },
      },
    }));
    const { submitter, dispatcher, executor, pool, recorder } = parts;
    await dispatcher.start();
    const request = parts.request("adopted");
    const adopting = submitter.adopt(executor.execute(request, READER), READER);
    await until("it is stored", async () => (await parts.find(request.id))?.state === "running");
    pool.room = 0;
    await submitter.submit(parts.request("other"));
    pool.room = 3;
    dispatcher.wake(parts.target.appNumber);
    await until("the other came, and all was reviewed", () => {
      CLOCK.skip(MINUTE_MS);
      return pool.calls.length > 1 && reviews > 1;
    });
    isKnown = true;
    expect(await adopting).toBe(false);
    // Also when all of it is looked at once more.
    const before = reviews;
    await until("it was reviewed again", () => {
      CLOCK.skip(MINUTE_MS);
      return reviews > before;
    });
    pool.finish();
    pool.finish();
    await until("its end is stored", async () => (await parts.find(request.id))?.state !== "running");
    await recorder.settle();
    expect(pool.came).toEqual(["adopted", "other"]);
    expect(await parts.find(request.id)).toMatchObject({ state: "success", attempt: 1, interruptions: 0 });
  },
);

/** Parts whose accepts are done and nobody hears of it, and the answer of a submit that nobody could find out in time. */
async function doubted() {
  const known = Promise.withResolvers<void>();
  const parts = byHand((store) => ({
    ...store,
    runs: {
      ...store.runs,
      accept: async (batch) => {
        await store.runs.accept(batch);
        throw lost();
      },
      refuse: async (batch) => {
        await known.promise;
        return await store.runs.refuse(batch);
      },
    },
  }));
  await parts.dispatcher.start();
  const request = parts.request("doubted");
  let answer: unknown = null;
  void parts.submitter.submit(request).catch((error: unknown) => (answer = error));
  await until("it is told that nobody knows", () => {
    CLOCK.skip(1_000);
    return answer !== null;
  });
  const settle = async () => {
    known.resolve();
    expect(await (answer as InDoubt).settled).toBe(true);
    for (let turn = 0; turn < 5; turn++) await setImmediate();
  };
  return { parts, request, settle };
}

verifies("async.in-doubt", "a run that was in doubt and is stored is executed, once", async () => {
  const { parts, request, settle } = await doubted();
  await settle();
  await until("it came", () => parts.pool.calls.length > 0);
  CLOCK.skip(MINUTE_MS);
  parts.pool.finish();
  await parts.recorder.settle();
  expect(parts.pool.came).toEqual(["doubted"]);
  expect(await parts.find(request.id)).toMatchObject({ state: "success", attempt: 1, interruptions: 0 });
});

verifies(
  "async.in-doubt",
  "one that another service took over while nobody knew is not executed again",
  async () => {
    const { parts, request, settle } = await doubted();
    const other = parts.next();
    await other.dispatcher.start();
    await until("it came to the other", () => other.pool.calls.length > 0);
    other.pool.finish();
    await other.recorder.settle();
    other.dispatcher.stop();
    await settle();
    expect(parts.pool.came).toEqual([]);
    CLOCK.skip(MINUTE_MS);
    await until("there is room for others", () => parts.dispatcher.reserve(parts.target));
    expect([other.pool.came, parts.pool.came]).toEqual([["doubted"], []]);
    expect(await parts.find(request.id)).toMatchObject({ state: "success", attempt: 1 });
  },
);

verifies(
  "async.claim-review",
  "a run that is stored as queued after its caller was told that nobody knows is executed",
  async () => {
    const written = Promise.withResolvers<void>();
    const parts = byHand((store) => ({
      ...store,
      runs: {
        ...store.runs,
        accept: async (batch) => {
          await written.promise;
          await store.runs.accept(batch);
        },
      },
    }));
    const { submitter, dispatcher, pool } = parts;
    await dispatcher.start();
    pool.room = 0;
    let answer: unknown = null;
    void submitter.submit(parts.request("late")).catch((error: unknown) => (answer = error));
    pool.room = 1;
    await until("it is told that nobody knows", () => {
      CLOCK.skip(1_000);
      return answer !== null;
    });
    await until("nothing is claimed", () => dispatcher.reserve(parts.target));
    dispatcher.giveBack(parts.target.appNumber);
    written.resolve();
    expect(await (answer as InDoubt).settled).toBe(true);
    await until("it came", () => {
      CLOCK.skip(MINUTE_MS);
      return pool.calls.length > 0;
    });
    expect(pool.came).toEqual(["late"]);
  },
);
