import type { AppLogLine } from "../../apps/catalog.ts";
import { type Flood, FloodGate, type FloodLimits } from "../../apps/logs/flood-gate.ts";
import type { Clock } from "../../kit/clock.ts";

/** How much of each app is copied to the service's own output: as much as a person can read, with room for a burst. */
const LIMITS: FloodLimits = { linesPerSecond: 50, bytesPerSecond: 32 * 1024, burstSeconds: 10 };
const MAX_LINE_CHARS = 2_000;
const SETTLE_MS = 1_000;

/**
 * Copies what apps print to the service's own output, within bounds: the whole is in the apps' logs. What is left
 * out of an app is told in one line.
 */
export function copyAppLines(
  clock: Clock,
  print: (line: AppLogLine) => void,
): { readonly onAppLog: (line: AppLogLine) => void; readonly stop: () => void } {
  const floods = new FloodGate<AppLogLine>(LIMITS);
  const tell = ({ first, lineCount }: Flood<AppLogLine>): void => {
    const lines = lineCount === 1 ? "1 line is" : `${lineCount} lines are`;
    print({
      ...first,
      runId: null,
      text: `[millrace] ${lines} omitted here; \`millrace logs\` shows more`,
    });
  };
  const settling = clock.every(SETTLE_MS, () => {
    for (const flood of floods.settle(clock.monotonic())) tell(flood);
  });
  return {
    onAppLog: (line) => {
      const from = { owner: String(line.appNumber), source: "" };
      const { passes, after } = floods.pass(from, line, line.text.length, clock.monotonic());
      if (after) tell(after);
      if (passes) print({ ...line, text: shorten(line.text) });
    },
    stop: () => {
      settling.cancel();
      for (const flood of floods.end()) tell(flood);
    },
  };
}

function shorten(text: string): string {
  return text.length <= MAX_LINE_CHARS ? text : `${text.slice(0, MAX_LINE_CHARS)} [millrace: cut]`;
}
