import { expect, test } from "vitest";
import { USUAL_LIMITS, listenerLimits } from "../../../src/config/listener-limits.ts";
import { readSettings } from "../../../src/config/settings.ts";
import { createLog } from "../../../src/kit/log.ts";
import { verifies } from "../../verifies.ts";

/** What a limit on open files makes of the settings, and what is logged. */
function limitsOf(filesLimit: number | null, flags: Record<string, unknown> = {}) {
  const lines: string[] = [];
  const log = createLog("info", { write: (line) => lines.push(line) });
  const limits = listenerLimits(readSettings({ flags, env: {} }).settings, log, filesLimit);
  const levels = lines.map((line) => (JSON.parse(line) as { level: number }).level);
  return { ...limits, levels };
}

test("the usual limits are those of no setting", () => {
  expect(limitsOf(null)).toEqual({ ...USUAL_LIMITS, levels: [] });
});

verifies(
  "listener.descriptors",
  "both listeners full leave a quarter of all descriptors, and no fewer than 256",
  () => {
    for (const limit of [256, 1_024, 4_096, 20_000, 65_536, 1_048_576]) {
      const { maxConnections, maxConnectionsPerAddress } = limitsOf(limit);
      const keptBack = limit - 2 * maxConnections;
      expect([limit, keptBack >= Math.min(limit - 2, Math.max(256, limit / 4))]).toEqual([limit, true]);
      expect(maxConnectionsPerAddress).toBeLessThanOrEqual(Math.max(1, maxConnections / 2));
    }
    expect(limitsOf(65_536).maxConnections).toBe(10_000);
  },
);

verifies(
  "listener.descriptors",
  "a listener that takes fewer than asked for says so, loudly when they are few",
  () => {
    expect(limitsOf(1_024)).toMatchObject({ maxConnections: 384, levels: [40] });
    expect(limitsOf(20_000)).toMatchObject({ maxConnections: 7_500, levels: [30] });
    expect(limitsOf(65_536).levels).toEqual([]);
    expect(limitsOf(65_536, { maxConnections: 60_000 })).toMatchObject({
      maxConnections: 24_576,
      levels: [30],
    });
  },
);
