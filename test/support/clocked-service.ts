import { readFileSync } from "node:fs";
import { readSettings } from "../../src/config/settings.ts";
import type { Clock, Timer } from "../../src/kit/clock.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";

// A service whose time a test moves. On SIGUSR2 it reads from the file that SERVICE_CLOCK names how many
// milliseconds the date is ahead of the true one, as if somebody had set it, and how many milliseconds have been
// skipped in all, as if they had passed.

/** What stands in the file. */
export type ClockPosition = { readonly aheadMs: number; readonly skippedMs: number };

let aheadMs = 0;
let skippedMs = 0;
let moves = 0;

const RealDate = Date;

class MovedDate extends RealDate {
  constructor(...args: [] | ConstructorParameters<typeof Date>) {
    if (args.length === 0) super(MovedDate.now());
    else super(...args);
  }

  static override now(): number {
    return RealDate.now() + aheadMs + Math.round(skippedMs);
  }
}

globalThis.Date = MovedDate as DateConstructor;

type Due = { at: number; readonly act: () => void; isPending: boolean; timeout: NodeJS.Timeout | undefined };

const timers = new Set<Due>();
const monotonic = (): number => performance.now() + skippedMs;

function wait(due: Due): void {
  clearTimeout(due.timeout);
  due.timeout = setTimeout(due.act, Math.max(1, due.at - monotonic())).unref();
}

function timer(ms: number, repeats: boolean, act: () => void): Timer {
  const due: Due = {
    at: 0,
    isPending: true,
    timeout: undefined,
    act: () => {
      if (repeats) arm();
      else end();
      act();
    },
  };
  const arm = (): void => {
    due.at = monotonic() + Math.max(1, ms);
    timers.add(due);
    wait(due);
  };
  const end = (): void => {
    clearTimeout(due.timeout);
    timers.delete(due);
  };
  arm();
  return {
    cancel: () => {
      due.isPending = false;
      end();
    },
    restart: () => {
      if (due.isPending) arm();
    },
  };
}

const clock: Clock = {
  now: () => Date.now(),
  monotonic,
  after: (ms, act) => timer(ms, false, act),
  every: (ms, act) => timer(ms, true, act),
};

/** What becomes due is done, in order, before this returns. */
function skip(ms: number): void {
  const end = monotonic() + ms;
  for (;;) {
    let first: Due | null = null;
    for (const due of timers) if (due.at <= end && (!first || due.at < first.at)) first = due;
    if (!first) break;
    skippedMs += Math.max(0, first.at - monotonic());
    first.act();
  }
  skippedMs += Math.max(0, end - monotonic());
  for (const due of timers) wait(due);
}

/** As the test counts: what passes by itself while something due is done, it need not skip. */
let skippedInAll = 0;
process.on("SIGUSR2", () => {
  const wanted = JSON.parse(readFileSync(process.env["SERVICE_CLOCK"] ?? "", "utf8")) as ClockPosition;
  aheadMs = wanted.aheadMs;
  skip(wanted.skippedMs - skippedInAll);
  skippedInAll = wanted.skippedMs;
  process.stdout.write(`clock moved ${(moves += 1)}\n`);
});

const { settings } = readSettings({ flags: {}, env: process.env });
const service = await startService(settings, { log: createLog(settings.logLevel), clock });
process.once("SIGTERM", () => void service.stop().then(() => process.exit()));
