import { expect } from "vitest";
import { AppError } from "../../../src/model/errors.ts";
import type { Store } from "../../../src/store/store.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { WITHOUT_WALLS, testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC, MAIN, ONE, ended, ledger, submit } from "./site.ts";

/** The answers to this many claims that got something are lost on their way. */
const LOST = 2;

class LostAnswers {
  count = 0;

  /** Does the write, and tells nobody. */
  async lose<Result>(write: Promise<Result>, got: (result: Result) => boolean): Promise<Result> {
    const result = await write;
    if (this.count >= LOST || !got(result)) return result;
    this.count += 1;
    throw new AppError("in_doubt", {}, new Error("the database thread ended"));
  }
}

verifies("async.claim-review", "runs of a claim whose answer was lost are executed, once", async () => {
  const lost = new LostAnswers();
  const aroundStore = (store: Store): Store => ({
    ...store,
    claims: {
      ...store.claims,
      claim: (query) => lost.lose(store.claims.claim(query), ({ runs }) => runs.length > 0),
    },
  });
  const clock = new SkippingClock();
  const test = await testService({ app: { main: MAIN, toml: ONE } }, WITHOUT_WALLS, { aroundStore, clock });
  // One with a key is stored as queued, whatever room there is.
  const keyed = (n: number) => submit(test, "app", { n }, { headers: { "idempotency-key": `${n}` } });
  const ids = [await keyed(1), await keyed(2), await keyed(3)];
  await until("both answers were lost, and all have run", () => {
    clock.skip(1_000);
    return lost.count === LOST && ledger(test, "app").length >= ids.length;
  });
  for (const id of ids) expect(await ended(test, "app", id)).toMatchObject({ status: "success", attempt: 1 });
  expect(ledger(test, "app").toSorted()).toEqual(["1", "2", "3"]);
});

verifies("async.claim-review", "webhooks of a claim whose answer was lost are sent", async () => {
  const lost = new LostAnswers();
  const aroundStore = (store: Store): Store => ({
    ...store,
    deliveries: {
      ...store.deliveries,
      claimDue: (query) => lost.lose(store.deliveries.claimDue(query), (due) => due.length > 0),
    },
  });
  const clock = new SkippingClock();
  const target = await WebhookTarget.open();
  const flags = { webhookAllow: "127.0.0.0/8" };
  const test = await testService(
    { app: { main: MAIN, toml: ONE } },
    { ...flags, ...WITHOUT_WALLS },
    { aroundStore, clock },
  );
  const suffix = `${ASYNC.suffix}&webhookEndpoint=${encodeURIComponent(target.url)}`;
  const { json } = await test.call("app", { n: 1 }, { suffix });
  await until("it was sent", () => {
    clock.skip(1_000);
    return target.received.length > 0;
  });
  expect(lost.count).toBe(LOST);
  expect(target.received.map(({ headers }) => headers["webhook-id"])).toEqual([json.run_id]);
});

verifies(
  "async.claim-review",
  "webhooks of a claim that is done long after it was given up are sent",
  async () => {
    let late: (() => Promise<readonly unknown[]>) | null = null;
    let claimedLate = -1;
    const aroundStore = (store: Store): Store => ({
      ...store,
      deliveries: {
        ...store.deliveries,
        claimDue: async (query) => {
          const isFirst = late === null && (await store.deliveries.nextDueAt()) !== null;
          if (!isFirst) return await store.deliveries.claimDue(query);
          late = () => store.deliveries.claimDue(query);
          throw new AppError("in_doubt", {}, new Error("the database does not answer"));
        },
        held: async (query) => {
          const held = await store.deliveries.held(query);
          // It is done just after it was looked for.
          if (late && claimedLate < 0) claimedLate = (await late()).length;
          return held;
        },
      },
    });
    const clock = new SkippingClock();
    const target = await WebhookTarget.open();
    const flags = { webhookAllow: "127.0.0.0/8" };
    const test = await testService(
      { app: { main: MAIN, toml: ONE } },
      { ...flags, ...WITHOUT_WALLS },
      { aroundStore, clock },
    );
    const suffix = `${ASYNC.suffix}&webhookEndpoint=${encodeURIComponent(target.url)}`;
    const { json } = await test.call("app", { n: 1 }, { suffix });
    await until("it was sent", () => {
      clock.skip(10_000);
      return target.received.length > 0;
    });
    expect(claimedLate).toBe(1);
    expect(target.received.map(({ headers }) => headers["webhook-id"])).toEqual([json.run_id]);
  },
);
