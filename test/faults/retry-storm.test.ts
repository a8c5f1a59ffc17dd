import { readFileSync } from "node:fs";
import { expect, onTestFinished } from "vitest";
import type { RunState } from "../../src/model/run.ts";
import { openStore, type Store } from "../../src/store/store.ts";
import { testDatabases, triedKinds } from "../support/databases.ts";
import { FAULT_LENGTH } from "../support/fault-length.ts";
import { KillableService } from "../support/killable-service.ts";
import { queuedRun, samplePayload } from "../support/sample-run.ts";
import { ServiceClock } from "../support/service-clock.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const RUNS = { minimal: 500, short: 5_000, full: 100_000 }[FAULT_LENGTH];
const PAGE = 500;
const HOUR_MS = 3_600_000;
const MAIN = `
import millrace

def run():
    if millrace.run.attempt == 1:
        raise ConnectionError("all at once")
    return 1

def plain():
    return 1
`;
const TOML = `[scaling]\nmax_replicas = 2\n[retry]\non = ["ConnectionError"]\nmax_attempts = 2\ninitial_delay = "1h"\njitter = 0\n`;

/** What the service may hold in memory more when all have ended than when all have failed. */
const MAX_GROWTH_BYTES = 150 * 1024 * 1024;

const databases = testDatabases();

for (const kind of triedKinds("sqlite")) {
  verifies(
    "retry.durable",
    `${RUNS} runs that fail together and become due together all end, on ${kind}, and calls go on`,
    async () => {
      const database = await databases.fresh(kind);
      const service = await KillableService.deploy(database, { main: MAIN, toml: TOML });
      const { appNumber } = service;
      const store = await openStore(database);
      onTestFinished(() => store.close());
      await queue(store, appNumber);
      const clock = new ServiceClock(service);
      expect(await clock.start()).toBe(true);
      const isOver = new AbortController();
      const calls = callAway(service, isOver.signal);
      const some = async (state: RunState) =>
        (await store.runs.list({ appNumber, state, limit: 1 })).length > 0;
      const isIdle = async () => (await store.claims.backlog()).length === 0 && !(await some("running"));
      try {
        await until("all have failed once", isIdle);
        const failed = residentBytes(service);
        await clock.skip(HOUR_MS);
        await until("all have ended", async () => (await isIdle()) && !(await some("queued")));
        expect(residentBytes(service) - failed).toBeLessThan(MAX_GROWTH_BYTES);
        if (FAULT_LENGTH === "full") console.log({ kind, failed, ended: residentBytes(service) });
      } finally {
        isOver.abort();
      }
      const made = await calls;
      expect([...made.keys()]).toEqual(["200 1"]);
      await service.stop();
      for (let before: string | undefined, seen = 0; seen < RUNS;) {
        const page = await store.runs.list({
          appNumber,
          asyncOnly: true,
          limit: PAGE,
          ...(before && { before }),
        });
        expect(page.filter(({ state, attempt }) => state !== "success" || attempt !== 2)).toEqual([]);
        expect(page.length).toBeGreaterThan(0);
        seen += page.length;
        before = page.at(-1)?.id;
      }
    },
  );
}

/** Accepts them all; no service runs. */
async function queue(store: Store, appNumber: number): Promise<void> {
  const [version] = await store.versions.list(appNumber);
  const payload = samplePayload({ input: Buffer.from("{}") });
  for (let first = 0; first < RUNS; first += PAGE) {
    const count = Math.min(PAGE, RUNS - first);
    const runs = Array.from({ length: count }, () => queuedRun({ appNumber, versionId: version!.id }));
    await store.runs.accept(runs.map((run) => ({ run, payload, owner: null })));
  }
}

/** Calls the app, one call after the other, until the signal aborts; counts the answers. */
async function callAway(service: KillableService, signal: AbortSignal): Promise<Map<string, number>> {
  const answers = new Map<string, number>();
  while (!signal.aborted) {
    const { status, json } = await service.post({}, { functionName: "plain" });
    const answer = `${status} ${json.result ?? json.code}`;
    answers.set(answer, (answers.get(answer) ?? 0) + 1);
  }
  return answers;
}

function residentBytes({ command }: KillableService): number {
  const status = readFileSync(`/proc/${command.pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1024;
}
