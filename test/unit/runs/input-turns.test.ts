import { setImmediate } from "node:timers/promises";
import { expect } from "vitest";
import { InputTurns } from "../../../src/runs/input-turns.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

const BYTES = 1024 * 1024;
const REFUSED = { code: "storage_unavailable", status: 503 };

/** Turns, and what is being stored in them until the test says that it is done. */
function turns() {
  const clock = new HandClock();
  const inputs = new InputTurns(clock);
  const stored: number[] = [];
  const ends: (() => void)[] = [];
  const store = (appNumber: number, bytes = BYTES, isBlob = false): Promise<unknown> =>
    inputs
      .take({ appNumber, bytes, isBlob }, async () => {
        stored.push(appNumber);
        await new Promise<void>((resolve) => ends.push(resolve));
      })
      .catch((error: unknown) => error);
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 5; turn += 1) await setImmediate();
  };
  return { clock, store, stored, ends, settle };
}

verifies(
  "accept.turns",
  "large inputs of one app leave room for those of others, and little ones for all",
  async () => {
    const { store, stored, ends, settle } = turns();
    for (let n = 0; n < 20; n += 1) void store(1);
    void store(2);
    void store(1, 64 * 1024);
    // Where blobs are put is no matter of rows.
    void store(1, BYTES, true);
    await settle();
    expect(stored.filter((app) => app === 1)).toHaveLength(8 + 2);
    expect(stored.filter((app) => app === 2)).toHaveLength(1);
    while (ends.length > 0) {
      ends.shift()?.();
      await settle();
    }
    expect(stored).toHaveLength(23);
  },
);

verifies("accept.turns", "who would wait for too long is refused before anything is stored", async () => {
  const { clock, store, stored, settle } = turns();
  const all = Array.from({ length: 8 + 256 }, () => store(1));
  expect(await store(1)).toMatchObject(REFUSED);
  clock.advance(4_000);
  await settle();
  expect(await all.at(-1)).toMatchObject(REFUSED);
  expect(stored).toHaveLength(8);
});
