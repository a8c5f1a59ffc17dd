import type { DeployFigures, DeployId } from "./deploy.ts";
import { judge, type Verdict } from "./targets.ts";

/** The smallest time that at least this share (0 to 1) of the rounds did not exceed; null without rounds. */
export function quantile(times: readonly number[], share: number): number | null {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? null;
}

const TARGETS: readonly { readonly id: DeployId; readonly what: string; readonly targetMs: number }[] = [
  { id: "fresh", what: "new app, POST and PUT, to its first answer", targetMs: 2_000 },
  { id: "fresh-once", what: "new app, one call, to its first answer", targetMs: 2_000 },
  { id: "again", what: "redeploy, POST and PUT, to its first answer", targetMs: 1_500 },
  { id: "again-once", what: "redeploy, one call, to its first answer", targetMs: 1_500 },
];

/** The promises on deploys: 19 of 20 keep them. */
export function judgeDeploy({ times, problem }: DeployFigures): Verdict[] {
  return TARGETS.map(({ id, what, targetMs }) => {
    const measured = problem === null ? times[id] : [];
    return judge({
      what: `${what}, p95`,
      bound: "at most",
      target: targetMs,
      unit: "ms",
      value: quantile(measured, 0.95),
      spread: measured.length < 2 ? null : [Math.min(...measured), Math.max(...measured)],
    });
  });
}
