import type { Machine } from "../machine.ts";
import { syncText, verdictLines } from "../report.ts";
import { partLines } from "../stream-report.ts";
import type { SyncSettings } from "../sync.ts";
import type { Verdict } from "../targets.ts";
import type { ClusterFigures } from "./cluster.ts";

/** The tables of `bench cluster`, for people. */
export function clusterText(
  machine: Machine,
  settings: SyncSettings,
  { subjects, streams }: ClusterFigures,
  verdicts: readonly Verdict[],
): string {
  return [
    syncText(machine, settings, subjects, []),
    "CPU and gateway: of the front alone",
    "",
    ...partLines(streams),
    "",
    ...verdictLines(verdicts),
  ].join("\n");
}
