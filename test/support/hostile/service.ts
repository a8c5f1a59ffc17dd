// A service whose hostile apps are played: `node service.ts FOLDER…` deploys each folder and tells how it fares.
import { readSettings } from "../../../src/config/settings.ts";
import { createLog } from "../../../src/kit/log.ts";
import { startService } from "../../../src/main.ts";
import { HostilePeer } from "./engine.ts";
import { fastClock } from "./fast-clock.ts";
import type { ServiceWord } from "./words.ts";

const REPORT_MS = 100;
/** A collection takes 30 ms: one in so many cases is enough. */
const CASES_PER_COLLECTION = 100;
/** A hostile app that crashes again and again waits up to 30 s before it is started again. */
const TIMES = 10;
const ERROR_LEVEL = 50;

/** How often processes were ended for each kind of fault. */
const faults: Record<string, number> = {};

/** Takes the service's log: faults are counted, errors of the service's own are passed on. */
const log = createLog("warn", {
  write(line: string): void {
    const { level, detail } = JSON.parse(line) as { level: number; detail?: string };
    if (level >= ERROR_LEVEL) process.stderr.write(line);
    const kind = detail?.replaceAll(/[\d.]+/g, "N");
    if (kind !== undefined) faults[kind] = (faults[kind] ?? 0) + 1;
  },
});

function tell(word: ServiceWord): void {
  process.stdout.write(`${JSON.stringify(word)}\n`);
}

const { settings } = readSettings({ flags: {}, env: process.env });
const { HOSTILE_SEED = "1", HOSTILE_FROM = "0" } = process.env;
const peer = new HostilePeer({ HOSTILE_SEED, HOSTILE_FROM });
const service = await startService(settings, {
  log,
  clock: fastClock(TIMES),
  engine: (host) => peer.engine(host),
});
for (const folder of process.argv.slice(2)) await service.install(folder);
const { apiUrl, owner } = service;
tell({ up: { apiUrl, projectId: owner.projectId, token: owner.token } });
let measureAt = 0;
const reports = setInterval(() => {
  const { cases } = peer.played;
  const isDue = cases >= measureAt;
  if (isDue) {
    measureAt = cases + CASES_PER_COLLECTION;
    // What is garbage is nobody's memory.
    globalThis.gc?.();
  }
  tell({ report: { ...peer.played, rssBytes: isDue ? process.memoryUsage.rss() : null } });
}, REPORT_MS);
process.once("SIGTERM", () => {
  clearInterval(reports);
  void service.stop().finally(() => {
    tell({ stopped: { unanswered: service.unanswered(), faults } });
    peer.close();
  });
});
