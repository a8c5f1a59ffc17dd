import { tmpdir } from "node:os";
import { expect, onTestFinished } from "vitest";
import { DiskReserve } from "../../../../src/kit/disk-reserve.ts";
import { createLog } from "../../../../src/kit/log.ts";
import { CHECKED_FIRST_BYTES, StorageWatch } from "../../../../src/store/upkeep/storage-watch.ts";
import type { DatabaseFile, StorageFault } from "../../../../src/store/upkeep/storage-fault.ts";
import { HandClock } from "../../../support/clocks.ts";
import { verifies } from "../../../verifies.ts";

const HOUR_MS = 3_600_000;
const FAULT = { message: "It is broken.", detail: "/data is broken." };

/** A file that says what is asked of it, and is checked when the test says so. */
class PlayedFile implements DatabaseFile {
  readonly checks: boolean[] = [];
  fault: StorageFault | null = null;
  checked = Promise.withResolvers<void>();
  looks = 0;
  readonly #bytes: number;

  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  bytes(): Promise<number> {
    return Promise.resolve(this.#bytes);
  }

  look(): Promise<void> {
    this.looks += 1;
    return Promise.resolve();
  }

  check(inSteps: boolean): Promise<void> {
    this.checks.push(inSteps);
    return this.checked.promise;
  }
}

async function watching(bytes: number) {
  const file = new PlayedFile(bytes);
  const clock = new HandClock();
  const load = { share: 0 };
  const lines: string[] = [];
  const log = createLog("info", { write: (line: string) => void lines.push(JSON.parse(line).msg) });
  const reserve = new DiskReserve(tmpdir(), 0, { setting: "SOME_SETTING", clock });
  const watch = new StorageWatch({ file, reserve, clock, log, busyShare: () => load.share });
  await watch.start();
  onTestFinished(() => watch.stop());
  return { file, clock, load, lines, watch };
}

verifies(
  "storage.checks",
  "calls wait for the check of a file of up to 256 MB, and then hear what it found",
  async () => {
    const { file, watch, lines } = await watching(CHECKED_FIRST_BYTES);
    let isChecked = false;
    const checked = watch.checked.then(() => (isChecked = true));
    // All of it at once, free pages too.
    expect([file.checks, isChecked, watch.refusal]).toEqual([[false], false, null]);
    file.fault = FAULT;
    file.checked.resolve();
    await checked;
    expect(watch.refusal).toBe("It is broken.");
    expect(lines).toEqual(["the database cannot be trusted; nothing new is accepted"]);
  },
);

verifies(
  "storage.checks",
  "no call waits for the check of a larger file, which comes a minute after the start however busy it is",
  async () => {
    const { file, clock, load, watch } = await watching(CHECKED_FIRST_BYTES + 1);
    await watch.checked;
    load.share = 0.9;
    clock.advance(59_000);
    expect(file.checks).toEqual([]);
    clock.advance(1_000);
    expect(file.checks).toEqual([true]);
  },
);

verifies("storage.checks", "a day later it is checked again, once there is little to do", async () => {
  const { file, clock, load } = await watching(CHECKED_FIRST_BYTES);
  file.checked.resolve();
  clock.advance(23.9 * HOUR_MS);
  expect(file.checks).toEqual([false]);
  load.share = 0.06;
  clock.advance(HOUR_MS);
  expect(file.checks).toEqual([false]);
  load.share = 0.04;
  clock.advance(60_000);
  expect(file.checks).toEqual([false, true]);
  clock.advance(23.9 * HOUR_MS);
  expect(file.checks).toHaveLength(2);
});

verifies(
  "storage.lost",
  "the file is looked for every second; the log says when it goes and returns",
  async () => {
    const { file, clock, lines, watch } = await watching(1);
    file.checked.resolve();
    await watch.checked;
    clock.advance(5_000);
    expect(file.looks).toBe(5);
    for (const fault of [FAULT, FAULT, null, null]) {
      file.fault = fault;
      clock.advance(1_000);
      await Promise.resolve();
      expect(watch.refusal).toBe(fault?.message ?? null);
    }
    expect(lines).toEqual([
      "the database cannot be trusted; nothing new is accepted",
      "the database is in its place again, and takes new work",
    ]);
  },
);
