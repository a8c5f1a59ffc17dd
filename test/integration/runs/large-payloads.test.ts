import { expect } from "vitest";
import { LARGE_BYTES } from "../../../src/runs/large-payloads.ts";
import { largeFolder } from "../../support/blobs/large-folder.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { CLOCK, partsByHand } from "./by-hand.ts";

const byHand = partsByHand();
const LARGE = `["${"x".repeat(LARGE_BYTES)}"]`;

/** The parts of async runs, with a folder for what is large. */
async function site() {
  const { large, ...folder } = await largeFolder();
  const parts = byHand(
    (store) => store,
    {},
    (store) => large({ store, clock: CLOCK }),
  );
  const { pool, dispatcher, submitter, target } = parts;
  pool.room = 0;
  return {
    pool,
    dispatcher,
    find: (id: string) => parts.find(id),
    payloadOf: (id: string) => parts.store.payloads.find({ appNumber: target.appNumber, id }),
    /** Accepts runs, none of which begins yet. */
    submit: async (...bodies: string[]) => {
      const requests = bodies.map((body) => parts.request(body));
      for (const request of requests) await submitter.submit(request);
      return requests.map(({ id }) => id);
    },
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

verifies("payloads.blob.away", "a claimed run waits for a blob store that is away", async () => {
  const { submit, begin, pool, goAway, comeBack, find } = await site();
  const [id] = await submit(LARGE);
  await goAway();
  begin();
  await until("it is claimed", async () => (await find(id!))?.state === "running");
  CLOCK.skip(1_000);
  await comeBack();
  await until("it came", () => {
    CLOCK.skip(1_000);
    return pool.calls.length === 1;
  });
  expect(pool.came).toEqual([LARGE]);
});

verifies("payloads.blob.away", "who stops meanwhile gives the run back", async () => {
  const { submit, begin, dispatcher, goAway, find } = await site();
  const [id] = await submit(LARGE);
  await goAway();
  begin();
  await until("it is claimed", async () => (await find(id!))?.state === "running");
  dispatcher.stop();
  await until("it is queued", async () => (await find(id!))?.state === "queued");
  expect(await find(id!)).toMatchObject({ attempt: 1, interruptions: 0 });
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
