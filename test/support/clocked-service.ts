import { readFileSync } from "node:fs";
import { readSettings } from "../../src/config/settings.ts";
import type { Clock } from "../../src/kit/clock.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import { HeldClock } from "./held-clock.ts";

// A service whose time a test moves. On SIGUSR2 it reads from the file that SERVICE_CLOCK names how many
// milliseconds the date is ahead of the true one, as if somebody had set it, and how many milliseconds have been
// skipped in all, as if they had passed.

/** What stands in the file. */
export type ClockPosition = { readonly aheadMs: number; readonly skippedMs: number };

const held = new HeldClock();
let position: ClockPosition = { aheadMs: 0, skippedMs: 0 };
let moves = 0;

class MovedDate extends Date {
  constructor(...args: [] | ConstructorParameters<typeof Date>) {
    if (args.length === 0) super(MovedDate.now());
    else super(...args);
  }

  static override now(): number {
    return held.now() + position.aheadMs;
  }
}

globalThis.Date = MovedDate as DateConstructor;

const clock: Clock = {
  now: () => Date.now(),
  monotonic: () => held.monotonic(),
  after: (ms, act) => held.after(ms, act),
  every: (ms, act) => held.every(ms, act),
};

process.on("SIGUSR2", () => {
  const before = position;
  position = JSON.parse(readFileSync(process.env["SERVICE_CLOCK"] ?? "", "utf8")) as ClockPosition;
  held.skip(position.skippedMs - before.skippedMs);
  process.stdout.write(`clock moved ${(moves += 1)}\n`);
});

const { settings } = readSettings({ flags: {}, env: process.env });
const service = await startService(settings, { log: createLog(settings.logLevel), clock });
process.once("SIGTERM", () => void service.stop().then(() => process.exit()));
