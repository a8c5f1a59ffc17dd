import type { Tally } from "./callers.ts";
import type { Sample } from "./vitals.ts";

/** One minute of a soak. */
export type Minute = {
  readonly minute: number;
  readonly tally: Tally;
  readonly sample: Sample;
  readonly ended: number;
  readonly promised: number;
  readonly webhooks: number;
  readonly faults: number;
  readonly processes: number;
  readonly breaches: number;
};

const COLUMNS: readonly (readonly [title: string, value: (minute: Minute) => string | number])[] = [
  ["minute", ({ minute }) => minute],
  ["sync ok", ({ tally }) => tally.answered],
  ["told", ({ tally }) => tally.failed],
  ["cut", ({ tally }) => tally.cut],
  ["p99 ms", ({ sample }) => sample.p99Ms?.toFixed(0) ?? "-"],
  ["promised", ({ promised }) => promised],
  ["ended", ({ ended }) => ended],
  ["streams", ({ tally }) => tally.streams],
  ["left", ({ tally }) => tally.left],
  ["cancels", ({ tally }) => tally.cancels],
  ["webhooks", ({ webhooks }) => webhooks],
  ["deploys", ({ tally }) => tally.deploys],
  ["wakes", ({ tally }) => tally.wakes],
  ["faults", ({ faults }) => faults],
  ["MB", ({ sample }) => sample.memoryMb.toFixed(0)],
  ["files", ({ sample }) => sample.descriptors],
  ["WAL MB", ({ sample }) => sample.walMb.toFixed(1)],
  ["processes", ({ processes }) => processes],
  ["breaches", ({ breaches }) => breaches],
];

/** The titles, above rows of `rowOf`. */
export const HEADING = COLUMNS.map(([title]) => title).join("  ");

/** All that had happened up to the end of a minute, as a line below the heading. */
export function rowOf(minute: Minute): string {
  return COLUMNS.map(([title, value]) => String(value(minute)).padStart(title.length)).join("  ");
}
