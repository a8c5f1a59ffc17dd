import { expect } from "vitest";
import { LARGE_BYTES } from "../../../src/runs/large-payloads.ts";
import { MAX_UNSTORED_BYTES } from "../../../src/runs/claim-recorder.ts";
import type { ReleasedClaim } from "../../../src/store/runs/claims.ts";
import { largeFolder } from "../../support/blobs/large-folder.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { CLOCK, partsByHand } from "./by-hand.ts";

const byHand = partsByHand();
const NOBODY = { onStream: () => undefined, onChunk: () => undefined, onEnd: () => undefined };
const LARGE = `["${"x".repeat(LARGE_BYTES)}"]`;

/** The parts of async runs, with a folder for what is large. */
async function site() {
  const { large, ...folder } = await largeFolder();
  const released: ReleasedClaim[] = [];
  const parts = byHand(
    (store) => ({
      ...store,
      claims: {
        ...store.claims,
        release: async (runs) => {
          await store.claims.release(runs);
          released.push(...runs);
        },
      },
    }),
    {},
    (store) => large({ store, clock: CLOCK }),
  );
  const { pool, dispatcher, submitter, target } = parts;
  pool.room = 0;
  return {
    pool,
    released,
    find: (id: string) => parts.find(id),
    payloadOf: (id: string) => parts.store.payloads.find({ appNumber: target.appNumber, id }),
    /** Accepts runs, none of which begins yet. */
    submit: async (...bodies: string[]) => {
      const requests = bodies.map((body) => parts.request(body));
      for (const request of requests) await submitter.submit(request);
      return requests.map(({ id }) => id);
    },
    /** A call with a webhook, which is stored before it begins. */
    call: () => submitter.executeKept(parts.request("0"), NOBODY),
    begin: () => {
      pool.room = 10;
      dispatcher.wake(target.appNumber);
    },
    ...folder,
  };
}

verifies("payloads.blob", "a large input comes from its blob, in its turn", async () => {
  const { submit, begin, pool, payloadOf } = await site();
  const [, large] = await submit("1", LARGE, "2");
  expect(await payloadOf(large!)).toMatchObject({ input: null, inputBlob: { bytes: LARGE.length } });
  begin();
  await until("all came", () => pool.calls.length === 3);
  expect(pool.came).toEqual(["1", LARGE, "2"]);
});

verifies("payloads.blob.gone", "a run whose input is gone fails, says so, and holds up nobody", async () => {
  const { submit, begin, pool, find, payloadOf, blobs } = await site();
  const [lost] = await submit(LARGE, "2");
  await blobs.remove((await payloadOf(lost!))!.inputBlob!.hash);
  begin();
  await until("the next one came", () => pool.came.join() === "2");
  await until("it has ended", async () => (await find(lost!))?.state === "failure");
  expect(await find(lost!)).toMatchObject({
    statusCode: 410,
    errorCode: "payload_not_kept",
    errorMessage: expect.stringContaining("no longer in the blob store"),
  });
});

verifies(
  "payloads.blob.wait",
  "while the blob store is away a large run waits in the queue, and those after it",
  async () => {
    const { submit, begin, pool, goAway, comeBack, find, released } = await site();
    const ids = await submit(LARGE, "2");
    await goAway();
    begin();
    // The first time all that there is room for, then one at a time.
    await until("they went back", () => released.length === 2);
    // Once: while the first one is being put back, another look would find the second one alone, which can run.
    CLOCK.skip(1_000);
    begin();
    await until("one is tried again", () => released.length >= 3);
    expect(released.slice(0, 3).map(({ id }) => ids.indexOf(id))).toEqual([0, 1, 0]);
    await until("both are queued", async () => {
      const runs = await Promise.all(ids.map((id) => find(id)));
      return runs.every((run) => run?.state === "queued");
    });
    expect(await find(ids[0]!)).toMatchObject({ attempt: 1, interruptions: 0 });
    await comeBack();
    await until("both came", () => {
      CLOCK.skip(1_000);
      begin();
      return pool.calls.length === 2;
    });
    // In either order: the second need not be fetched.
    expect(new Set(pool.came)).toEqual(new Set([LARGE, "2"]));
  },
);

verifies("payloads.blob.room", "ends that cannot be stored hold no more than their room", async () => {
  const { submit, call, begin, pool, goAway, comeBack, find } = await site();
  const ids = await submit("1", "2", "3");
  await goAway();
  begin();
  await until("they came", () => pool.calls.length === 3);
  const json = Buffer.from(`["${"x".repeat(MAX_UNSTORED_BYTES / 3)}"]`);
  for (let i = 0; i < 3; i += 1) pool.finish({ kind: "returned", json, status: 200, runMs: 1 });
  const [later] = await submit("4");
  expect((await find(later!))?.state).toBe("queued");
  await expect(call()).rejects.toMatchObject({ code: "storage_unavailable" });
  expect(pool.calls).toHaveLength(3);
  await comeBack();
  await until("the next one came", () => {
    CLOCK.skip(1_000);
    begin();
    return pool.calls.length === 4;
  });
  await until("every end is stored", async () => {
    CLOCK.skip(1_000);
    const runs = await Promise.all(ids.map((id) => find(id)));
    return runs.every((run) => run?.state === "success");
  });
});

verifies("payloads.blob.away", "nothing large is accepted, and no large result is lost", async () => {
  const { submit, begin, pool, goAway, comeBack, find, payloadOf } = await site();
  const [id] = await submit("1");
  begin();
  await until("it came", () => pool.calls.length === 1);
  await goAway();
  await expect(submit(LARGE)).rejects.toMatchObject({ code: "storage_unavailable" });
  pool.finish({ kind: "returned", json: Buffer.from(LARGE), status: 200, runMs: 1 });
  // What is small goes on.
  const [small] = await submit("2");
  await until("the next one came", () => pool.calls.length === 2);
  pool.finish();
  await until("it has ended", async () => (await find(small!))?.state === "success");
  expect((await find(id!))?.state).toBe("running");
  await comeBack();
  await until("its end is stored", async () => {
    CLOCK.skip(1_000);
    return (await find(id!))?.state === "success";
  });
  const { result, resultBlob } = (await payloadOf(id!))!;
  expect([result, resultBlob!.bytes > LARGE.length]).toEqual([null, true]);
});
