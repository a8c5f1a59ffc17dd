import { expect, test } from "vitest";
import type { LiveRun } from "../../../src/runs/live-run.ts";
import { PartReader } from "../../../src/runs/transcript-parts.ts";
import { RunLookup } from "../../../src/runs/lookup.ts";
import { Journal } from "../../../src/runs/journal.ts";
import { createLog } from "../../../src/kit/log.ts";
import type { Payload } from "../../../src/model/run.ts";
import { NO_OUTLOOK } from "../../support/no-queue.ts";
import { until } from "../../support/until.ts";
import { type ByHand, CLOCK, partsByHand } from "./by-hand.ts";

const byHand = partsByHand();
const MOST = 64 * 1024;
const NOBODY = { onStream: () => undefined, onChunk: () => undefined, onEnd: () => undefined };
const WEBHOOK = { endpoint: "https://example.test/hook", sealedSecret: Buffer.from("sealed") };
const mark = (place: number) => ({ keyHash: Buffer.alloc(32, place), fingerprint: Buffer.alloc(32, place) });

/** The two ways of a call that somebody waits for and that is stored before it starts. */
const WAYS = {
  kept: async (parts: ByHand, body: string): Promise<LiveRun> =>
    await parts.submitter.executeKept({ ...parts.request(body), webhook: WEBHOOK }, NOBODY),
  keyed: async (parts: ByHand, body: string): Promise<LiveRun> => {
    const request = { ...parts.request(body), webhook: WEBHOOK };
    const { live } = await parts.submitter.executeKeyed(request, mark(body.length % 256), NOBODY);
    return live!;
  },
};

const payloadOf = async ({ store }: ByHand, { request }: LiveRun): Promise<Payload | null> =>
  await store.payloads.find({ appNumber: request.target.appNumber, id: request.id });

for (const [way, execute] of Object.entries(WAYS)) {
  test(`of a ${way} call the input is written at its end, up to 64 KiB, and counted`, async () => {
    const parts = byHand();
    const { bytes: before } = await parts.store.retention.usage();
    const run = await execute(parts, "x".repeat(MOST));
    expect(await payloadOf(parts, run)).toMatchObject({ input: null, sealedSecret: expect.anything() });
    expect((await parts.store.retention.usage()).bytes).toBe(before);
    const json = Buffer.from(`"${"y".repeat(MOST)}"`);
    parts.pool.finish({ kind: "returned", json, status: 200, runMs: 1 });
    await run.settled();
    const stored = await payloadOf(parts, run);
    expect([stored?.input?.length, stored?.sealedSecret]).toEqual([MOST, null]);
    // A key stands for its whole answer; nobody else is answered from what is stored.
    const resultBytes = stored?.result?.length ?? 0;
    expect(resultBytes > MOST).toBe(way === "keyed");
    expect((await parts.store.retention.usage()).bytes).toBe(before + MOST + resultBytes);
    const large = await execute(parts, "x".repeat(MOST + 1));
    parts.pool.finish();
    await large.settled();
    const { input, result } = (await payloadOf(parts, large))!;
    expect([input, result === null]).toEqual([null, false]);
  });

  test(`a ${way} call is refused while the disk is within its reserve`, async () => {
    const parts = byHand();
    parts.reserve.refusal = "The disk is full.";
    await expect(execute(parts, "{}")).rejects.toMatchObject({ code: "storage_unavailable" });
    expect(parts.pool.calls).toEqual([]);
  });

  test(`a ${way} call that becomes async has its input for a second attempt`, async () => {
    const parts = byHand();
    const run = await execute(parts, "mine");
    parts.reserve.refusal = "The disk is full.";
    expect(await parts.submitter.adopt(run, NOBODY)).toBe(false);
    expect(run.isAsync).toBe(false);
    parts.reserve.refusal = null;
    const { bytes: before } = await parts.store.retention.usage();
    expect(await parts.submitter.adopt(run, NOBODY)).toBe(true);
    expect((await payloadOf(parts, run))?.input).toEqual(new Uint8Array(Buffer.from("mine")));
    expect((await parts.store.retention.usage()).bytes).toBe(before + 4);
    const next = parts.next();
    await next.dispatcher.start();
    await until("it came again", () => next.pool.calls.length === 1);
    expect(next.pool.came).toEqual(["mine"]);
    next.dispatcher.stop();
    next.pool.finish();
    await next.recorder.stop();
    parts.pool.finish();
  });

  test(`a ${way} call that is interrupted has no input, before its end is stored and after`, async () => {
    const parts = byHand();
    const run = await execute(parts, "");
    const next = parts.next();
    const { executor, store } = next;
    const journal = new Journal(store, createLog("silent"), CLOCK);
    const partReader = new PartReader(store, CLOCK);
    const lookup = new RunLookup({ executor, journal, store, partReader, large: null, outlook: NO_OUTLOOK });
    const key = { appNumber: parts.target.appNumber, id: run.request.id };
    await next.dispatcher.start();
    await until("it is ended", async () => {
      const known = await lookup.find(key);
      expect(known?.payload?.input).toBeNull();
      return known?.run.errorCode === "interrupted";
    });
    next.dispatcher.stop();
    await next.recorder.stop();
    expect((await payloadOf(parts, run))?.input).toBeNull();
    parts.pool.finish();
  });
}
