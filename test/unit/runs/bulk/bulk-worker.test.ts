import { setImmediate } from "node:timers/promises";
import { expect } from "vitest";
import { createLog } from "../../../../src/kit/log.ts";
import { BulkWorker } from "../../../../src/runs/bulk/bulk-worker.ts";
import type { HeldJob } from "../../../../src/store/runs/bulk-jobs.ts";
import { HandClock } from "../../../support/clocks.ts";
import { verifies } from "../../../verifies.ts";

const LOOK_MS = 1_000;

verifies(
  "bulk.survives",
  "a job is let go once the store answers again, if its app has moved meanwhile",
  async () => {
    const clock = new HandClock();
    const isAway = { store: false, app: false };
    const letGo: string[] = [];
    let claims = 0;
    let steps = 0;
    const open = [{ id: "job", appNumber: 1, action: "delete" as const }];
    const gone = async (): Promise<never> => await Promise.reject(new Error("the store is away"));
    const store = {
      kind: "postgres",
      appOwners: { list: async () => [{ appNumber: 1, isAlive: true }] },
      runs: { pageOfApp: async () => ({ runs: [{ id: "run" }], next: "more" }) },
      bulkJobs: {
        open: async () => (isAway.store ? await gone() : open),
        claim: async ({ id, owner }: { id: string; owner: string }): Promise<HeldJob> => {
          claims += 1;
          const job = {
            id,
            owner,
            appNumber: 1,
            action: "delete" as const,
            filter: { tag: "t" },
            fence: claims,
          };
          return { ...job, stage: 0, cursor: null, pending: null };
        },
        remove: async () => {
          steps += 1;
          // The next look at the jobs fails.
          Object.assign(isAway, { store: true });
          worker.wake();
          return true;
        },
        letGo: async ({ id }: HeldJob) => {
          if (isAway.store) await gone();
          letGo.push(id);
        },
      },
    };
    const worker: BulkWorker = new BulkWorker({
      store,
      clock,
      log: createLog("silent"),
      owner: "n-one",
      reserve: { refusal: null },
      isDraining: () => false,
      serves: () => !isAway.app,
      wake: () => {},
      cancel: async () => {},
    } as never);
    const turns = async (): Promise<void> => {
      for (let i = 0; i < 30; i++) await setImmediate();
    };
    worker.start();
    await turns();
    expect([claims, steps, letGo]).toEqual([1, 1, []]);
    Object.assign(isAway, { store: false, app: true });
    clock.advance(LOOK_MS);
    await turns();
    expect([claims, letGo]).toEqual([1, ["job"]]);
    await worker.stop();
  },
);
