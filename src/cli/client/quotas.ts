import type { Command } from "commander";
import { MAX_QUOTAS, type QuotaName, type Quotas } from "../../model/usage.ts";
import { count, type Numbers } from "./task.ts";

/** The options of a command that sets quotas. */
const QUOTA_OPTIONS = {
  callsPerMinute: ["--max-calls-per-minute <count>", "how many calls in any minute, or none for no limit"],
  concurrentRuns: ["--max-concurrent-runs <count>", "how many runs in progress at a time, or none"],
  gpuSecondsPerDay: ["--max-gpu-seconds <count>", "how many GPU seconds a day, in UTC, or none"],
} as const satisfies Record<QuotaName, readonly [string, string]>;

/** What these options say; 0 for none, because the parser takes null for a mistake. */
export type QuotaFlags = Numbers<"maxCallsPerMinute" | "maxConcurrentRuns" | "maxGpuSeconds">;

/** Adds the options that set quotas. */
export function limiting(command: Command): Command {
  for (const [name, [flags, description]] of Object.entries(QUOTA_OPTIONS)) {
    const read = count(flags.slice(0, flags.indexOf(" ")), 1, MAX_QUOTAS[name as QuotaName]);
    command.option(flags, description, (text: string) => (text === "none" ? 0 : read(text)));
  }
  return command;
}

/** The quotas with what the options change; undefined if they change nothing. */
export function quotasWith(flags: QuotaFlags, before: Quotas | null): Quotas | undefined {
  const { maxCallsPerMinute, maxConcurrentRuns, maxGpuSeconds } = flags;
  const given = [maxCallsPerMinute, maxConcurrentRuns, maxGpuSeconds];
  if (given.every((limit) => limit === undefined)) return undefined;
  const changed = (limit: number | undefined, name: QuotaName): number | null =>
    limit === undefined ? (before?.[name] ?? null) : limit || null;
  return {
    callsPerMinute: changed(maxCallsPerMinute, "callsPerMinute"),
    concurrentRuns: changed(maxConcurrentRuns, "concurrentRuns"),
    gpuSecondsPerDay: changed(maxGpuSeconds, "gpuSecondsPerDay"),
  };
}
