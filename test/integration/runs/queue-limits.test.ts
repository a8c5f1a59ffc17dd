import { expect } from "vitest";
import { AppError } from "../../../src/model/errors.ts";
import type { QueueConfig } from "../../../src/model/app-config.ts";
import type { Wishes } from "../../../src/model/terms.ts";
import type { Store } from "../../../src/store/store.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { type ByHand, CLOCK, partsByHand } from "./by-hand.ts";

const byHand = partsByHand();
const keyed = (concurrencyKey: string): Partial<Wishes> => ({ concurrencyKey });

function limited(queue: Partial<QueueConfig>, around: (store: Store) => Store = (store) => store): ByHand {
  const parts = byHand(around, { maxReplicas: 50 }, () => null, queue);
  parts.pool.room = 50;
  return parts;
}

const running = ({ pool }: ByHand): number => pool.calls.filter(({ hasEnded }) => !hasEnded).length;

verifies("queue.concurrency", "no more runs of an app run at once than it allows", async () => {
  const parts = limited({ concurrencyLimit: 2 });
  const { submitter, pool, dispatcher } = parts;
  await dispatcher.start();
  await Promise.all([0, 1, 2, 3, 4].map((n) => submitter.submit(parts.request(String(n)))));
  for (let came = 2; came <= 5; came++) {
    await until(`${came} came`, () => pool.calls.length === came);
    expect(running(parts)).toBeLessThanOrEqual(2);
    pool.finish();
  }
});

verifies("queue.concurrency", "runs that the app's earlier owner still executes count", async () => {
  const parts = limited({ concurrencyLimit: 2 });
  const later = parts.next();
  later.pool.room = 50;
  const first = parts.request("first");
  await parts.submitter.submit(first);
  parts.dispatcher.wake(parts.target.appNumber);
  await until("the first came", () => parts.pool.calls.length === 1);
  parts.dispatcher.stop();
  await later.submitter.submit(later.request("second"));
  await later.submitter.submit(later.request("third"));
  await until("the second came", () => later.pool.calls.length === 1);
  parts.pool.finish();
  await until("the end of the first is stored", async () => {
    return (await later.find(first.id))?.state === "success";
  });
  CLOCK.skip(1_000);
  later.dispatcher.wake(later.target.appNumber);
  await until("the third came", () => later.pool.calls.length === 2);
  later.dispatcher.stop();
  later.pool.finish();
  later.pool.finish();
  await later.recorder.stop();
});

verifies(
  "queue.key-concurrency",
  "runs over the limit of their key do not stand in the way of others, and follow as it has room",
  async () => {
    const parts = limited({ concurrencyKeyLimit: 1 });
    const { submitter, pool } = parts;
    const asked = [...Array.from({ length: 20 }, () => "x"), "y", null];
    await Promise.all(
      asked.map((key, n) => submitter.submit(parts.request(`${n} ${key}`, key === null ? null : keyed(key)))),
    );
    await until("one of each came", () => pool.calls.length === 3);
    expect(pool.came.toSorted()).toEqual(["0 x", "20 y", "21 null"]);
    for (let n = 1; n < 20; n++) {
      pool.calls
        .find(({ body, hasEnded }) => !hasEnded && String(body).endsWith("x"))!
        .end({
          kind: "returned",
          json: Buffer.from("1"),
          status: 200,
          runMs: 1,
        });
      await until(`x ${n} came`, () => pool.calls.length === 3 + n);
      expect(pool.came.at(-1)).toBe(`${n} x`);
    }
  },
);

verifies("queue.rate", "in no period begin more runs than the rate allows", async () => {
  let looks = 0;
  const parts = limited({ rateLimit: { count: 2, periodSeconds: 10 } }, (store) => ({
    ...store,
    claims: { ...store.claims, claim: (query) => store.claims.claim(query).finally(() => (looks += 1)) },
  }));
  const { submitter, pool, dispatcher } = parts;
  await dispatcher.start();
  await Promise.all([0, 1, 2, 3, 4].map((n) => submitter.submit(parts.request(String(n)))));
  for (const came of [2, 4, 5]) {
    await until(`${came} came`, () => pool.calls.length === came);
    CLOCK.skip(8_000);
    const before = looks;
    await until("it has looked again", () => {
      CLOCK.skip(100);
      return looks > before || came === 5;
    });
    expect(pool.calls.length).toBe(came);
    CLOCK.skip(1_200);
  }
});

verifies("queue.key-rate", "runs over the rate of their key wait, and others do not", async () => {
  const parts = limited({ concurrencyKeyRateLimit: { count: 1, periodSeconds: 10 } });
  const { submitter, pool, dispatcher } = parts;
  await dispatcher.start();
  const keys = ["x", "x", "y", "x"];
  await Promise.all(keys.map((key, n) => submitter.submit(parts.request(`${n} ${key}`, keyed(key)))));
  await until("one of each came", () => pool.calls.length === 2);
  expect(pool.came.toSorted()).toEqual(["0 x", "2 y"]);
  for (const came of [3, 4]) {
    await until(`${came} came`, () => {
      CLOCK.skip(500);
      return pool.calls.length === came;
    });
  }
  expect(pool.came.slice(2)).toEqual(["1 x", "3 x"]);
});

verifies(
  "queue.key-crash",
  "a service that dies before it admits the next run of a key leaves it to its successor",
  async () => {
    let isDying = true;
    const parts = limited({ concurrencyKeyLimit: 1 }, (store) => ({
      ...store,
      keyLines: {
        ...store.keyLines,
        admit: async (query) => {
          if (isDying) throw new AppError("storage_unavailable");
          return await store.keyLines.admit(query);
        },
      },
    }));
    for (const n of [0, 1, 2]) await parts.submitter.submit(parts.request(String(n), keyed("x")));
    parts.dispatcher.stop();
    expect(parts.pool.calls).toEqual([]);
    isDying = false;
    const next = parts.next();
    next.pool.room = 50;
    await next.dispatcher.start();
    for (let came = 1; came <= 3; came++) {
      await until(`${came} came`, () => next.pool.calls.length === came);
      expect(running(next)).toBe(1);
      next.pool.finish();
    }
    next.dispatcher.stop();
    await next.recorder.stop();
  },
);

verifies("queue.backlog", "beyond max_backlog, async calls are refused until runs begin", async () => {
  const parts = limited({ maxBacklog: 2 });
  const { submitter, pool, dispatcher, target } = parts;
  pool.room = 0;
  for (const n of [0, 1]) await submitter.submit(parts.request(String(n)));
  const refused = await submitter.submit(parts.request("2")).catch((error: unknown) => error);
  expect(refused).toMatchObject({ code: "backlog_full", detail: { headers: { "retry-after": "2" } } });
  pool.room = 50;
  dispatcher.wake(target.appNumber);
  await until("both came", () => pool.calls.length === 2);
  await until("another is accepted", async () => {
    CLOCK.skip(2_000);
    return await submitter.submit(parts.request("3")).then(
      () => true,
      () => false,
    );
  });
});
