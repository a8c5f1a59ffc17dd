import { expect } from "vitest";
import { ReplicaMeter } from "../../../src/apps/replica-meter.ts";
import { AppError } from "../../../src/model/errors.ts";
import { DAY_MS } from "../../../src/store/usage/roll-up.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

/** Lets what is on its way arrive. */
async function settled(): Promise<void> {
  for (let i = 0; i < 50; i++) await Promise.resolve();
}

function meter(clock: HandClock, gpus: number | null) {
  const used = { cpuMs: 0, residentBytes: 2e9 };
  const replica = { id: "r-1", startedAt: clock.now() - 5_000, usage: async () => ({ ...used }) };
  const hardware = { gpuCount: 2, compute: ["H100"] };
  const live = {
    app: { number: 7 },
    version: { config: { hardware } },
    pool: { replicas: new Set([replica]) },
  };
  const written: object[] = [];
  const state = { isAway: false };
  const made = new ReplicaMeter({
    clock,
    store: {
      replicaUsage: {
        add: async (rows: readonly object[]) => {
          if (state.isAway) throw new AppError("storage_unavailable");
          written.push(...rows);
        },
      },
    },
    log: { warn: () => {}, debug: () => {} } as never,
    catalog: { all: () => [live], versions: () => [live] } as never,
    gpusOf: () => gpus,
  });
  const pass = async (looks: number, cpuMs: number): Promise<void> => {
    for (let look = 0; look < looks; look++) {
      used.cpuMs += cpuMs;
      clock.advance(15_000);
      await settled();
    }
  };
  return { made, pass, written, state, replica };
}

verifies(
  "usage.replicas",
  "what replicas use is measured by app and day, and written every minute",
  async () => {
    const clock = new HandClock(20_000 * DAY_MS + 3_600_000);
    const { made, pass, written, state, replica } = meter(clock, 0.5);
    await pass(3, 1_000);
    expect(written).toEqual([]);
    await pass(1, 1_000);
    // Since its start, which was five seconds before the first look began.
    const ms = 65_000;
    expect(written).toEqual([
      { appNumber: 7, day: 20_000, replicaMs: ms, cpuMs: 4_000, gpuMs: ms / 2, gbMs: ms * 2 },
    ]);
    // What could not be written is written later; a replica that does not answer still exists.
    state.isAway = true;
    replica.usage = () => Promise.reject(new Error("gone"));
    await pass(4, 1_000);
    state.isAway = false;
    await pass(1, 1_000);
    await made.stop();
    expect(written[1]).toEqual({
      appNumber: 7,
      day: 20_000,
      replicaMs: 75_000,
      cpuMs: 0,
      gpuMs: 37_500,
      gbMs: 150_000,
    });
    expect(clock.pending).toBe(0);
    const { made: asConfigured, pass: passOther, written: other } = meter(clock, null);
    await passOther(4, 0);
    expect(other).toMatchObject([{ gpuMs: 65_000 * 2 }]);
    await asConfigured.stop();
  },
);
