import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { DiskWatcher } from "../../../../src/host/limits/disk-watcher.ts";
import { HandClock } from "../../../support/clocks.ts";
import { scratchDirectory } from "../../../support/command-line.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";

const MIB = 1024 * 1024;
const LOOK_MS = 1_000;

verifies(
  "walls.limits.disk",
  "a folder that is watched anew while it is measured stays watched",
  async () => {
    const clock = new HandClock();
    const watcher = new DiskWatcher(clock);
    const bound = { folder: scratchDirectory(), maxBytes: MIB };
    const stop = watcher.watch(bound, () => {});
    clock.advance(LOOK_MS);
    // It is being measured for a replica that ends now, and another one starts.
    stop();
    let isOver = false;
    watcher.watch(bound, () => (isOver = true));
    // Found to be small, for the first of them.
    const other = path.join(bound.folder, "other");
    mkdirSync(other);
    let isOtherOver = false;
    watcher.watch({ folder: other, maxBytes: 0 }, () => (isOtherOver = true));
    writeFileSync(path.join(other, "file"), "x");
    const look = (): void => clock.advance(LOOK_MS);
    await until("the other is measured", () => (look(), isOtherOver));
    expect(isOver).toBe(false);
    writeFileSync(path.join(bound.folder, "large"), Buffer.alloc(2 * MIB));
    await until("it is found to be too large", () => (look(), isOver));
  },
);

verifies("walls.limits.disk", "what somebody wrote who has ended before the first look counts", async () => {
  const watcher = new DiskWatcher(new HandClock());
  const bound = { folder: scratchDirectory(), maxBytes: MIB };
  const stop = watcher.watch(bound, () => {});
  writeFileSync(path.join(bound.folder, "large"), Buffer.alloc(2 * MIB));
  stop();
  await until("it is known to be too large", () => watcher.isOver(bound.folder));
});
