import { readFileSync } from "node:fs";
import { readSettings } from "../../src/config/settings.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import { SkippingClock } from "./clocks.ts";

// A service whose time a test moves. On SIGUSR2 it reads from the file that SERVICE_CLOCK names how many
// milliseconds the date is ahead of the true one, as if somebody had set it, and how many milliseconds have been
// skipped in all, as if they had passed.

const RealDate = Date;
const clock = new SkippingClock();
let aheadMs = 0;
let skippedMs = 0;
let moves = 0;

class MovedDate extends RealDate {
  constructor(...args: [] | ConstructorParameters<typeof Date>) {
    if (args.length === 0) super(MovedDate.now());
    else super(...args);
  }

  static override now(): number {
    return RealDate.now() + aheadMs;
  }
}

globalThis.Date = MovedDate as DateConstructor;

process.on("SIGUSR2", () => {
  const wanted = JSON.parse(readFileSync(process.env["SERVICE_CLOCK"] ?? "", "utf8")) as ClockPosition;
  aheadMs = wanted.aheadMs;
  clock.skip(wanted.skippedMs - skippedMs);
  skippedMs = wanted.skippedMs;
  process.stdout.write(`clock moved ${(moves += 1)}\n`);
});

/** What stands in the file. */
export type ClockPosition = { readonly aheadMs: number; readonly skippedMs: number };

const { settings } = readSettings({ flags: {}, env: process.env });
const service = await startService(settings, { log: createLog(settings.logLevel), clock });
process.once("SIGTERM", () => void service.stop().then(() => process.exit()));
