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
  expect(limitsOf(null)).toEqual({ api: USUAL_LIMITS, management: USUAL_LIMITS, levels: [] });
});

verifies(
  "listener.descriptors",
  "both listeners full leave a quarter of all descriptors, and no fewer than 256",
  () => {
    for (const limit of [256, 1_024, 4_096, 20_000, 65_536, 1_048_576]) {
      const { api, management } = limitsOf(limit);
      const keptBack = limit - api.maxConnections - management.maxConnections;
      expect([limit, keptBack >= Math.min(limit - 2, Math.max(256, limit / 4))]).toEqual([limit, true]);
      for (const { maxConnections, maxConnectionsPerAddress } of [api, management])
        expect(maxConnectionsPerAddress).toBeLessThanOrEqual(Math.max(1, maxConnections / 2));
    }
    expect(limitsOf(65_536)).toMatchObject({ api: { maxConnections: 10_000 } });
  },
);

verifies(
  "listener.descriptors",
  "a listener that takes fewer than asked for says so, loudly when they are few",
  () => {
    expect(limitsOf(1_024)).toMatchObject({ api: { maxConnections: 672 }, levels: [40] });
    expect(limitsOf(20_000, { maxConnections: 14_000 })).toMatchObject({
      api: { maxConnections: 13_125 },
      management: { maxConnections: 1_875 },
      levels: [30],
    });
    expect(limitsOf(65_536).levels).toEqual([]);
    expect(limitsOf(65_536, { maxConnections: 60_000 })).toMatchObject({
      api: { maxConnections: 43_008 },
      levels: [30],
    });
  },
);
