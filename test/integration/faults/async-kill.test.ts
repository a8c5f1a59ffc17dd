import { expect, test } from "vitest";
import type { Run } from "../../../src/model/run.ts";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { faultDice } from "../../support/dice.ts";
import { KillableService } from "../../support/killable-service.ts";
import { endLeases } from "../../support/leases.ts";
import { LEDGER_APP, Ledger } from "../../support/ledger.ts";
import { PromisedRuns } from "../../support/promised-runs.ts";
import { until } from "../../support/until.ts";
import { expectUsageOfRuns } from "../../support/usage-of-runs.ts";

const IS_FULL = process.env["MILLRACE_FAULTS"] === "full";
const KILLS = IS_FULL ? { sqlite: 100, postgres: 100 } : { sqlite: 2, postgres: 1 };
const RUNS = IS_FULL ? 10_000 : 80;
const RUN_MS = 20;

const databases = testDatabases();

for (const kind of triedKinds("sqlite")) {
  const kills = KILLS[kind];
  test(
    `${kills} times kill -9 during ${RUNS} async runs on ${kind}: none lost, none stuck, none repeated that a kill did not meet`,
    async () => {
      const app = { main: LEDGER_APP, toml: "[scaling]\nmax_replicas = 2\n" };
      const service = await KillableService.deploy(await databases.fresh(kind), app);
      const promised = new PromisedRuns(service);
      const roll = faultDice();
      /** The claims of each run that a kill met. On Postgres a claim outlives its service by its lease: it counts once. */
      const met = new Map<string, Set<number>>();
      for (let kill = 1; kill <= kills; kill++) {
        expect(await service.start()).toBe(true);
        const had = promised.accepted.size;
        const begun = Ledger.read(service).beginnings;
        const posting = promised.post((RUNS * kill) / kills, { ms: RUN_MS });
        const more = roll(Math.max(0, (RUNS * kill) / kills - had));
        const begins = roll(more);
        await until(
          "so many are accepted, and so many of them run or have run",
          () => promised.accepted.size >= had + more && Ledger.read(service).beginnings >= begun + begins,
        );
        await service.kill();
        await posting;
        for (const { id, interruptions } of await runningIn(service)) {
          met.set(id, (met.get(id) ?? new Set()).add(interruptions));
        }
        // In the whole form they wait for the lease of the dead.
        if (!IS_FULL) await endLeases(service.database);
      }
      await service.start();
      await promised.post(RUNS, { ms: RUN_MS });
      await promised.keep();
      await service.stop();
      await endLost(service);
      await service.withStore(async (store) => {
        const { projectId, appNumber } = service;
        await expectUsageOfRuns(store, { projectId, appNumber, appName: "app" });
        const runs = await store.runs.list({ appNumber, limit: 2 * RUNS });
        // Those whose 202 was lost on its way too.
        expect(runs.filter(({ state }) => state !== "success")).toEqual([]);
        const known = new Set(runs.map(({ id }) => id));
        const ledger = Ledger.read(service);
        expect([...ledger.begins.keys()].filter((id) => !known.has(id))).toEqual([]);
        expect([...known].filter((id) => ledger.ended(id) === 0)).toEqual([]);
        const repeated = [...known].filter((id) => ledger.begun(id) > 1);
        expect(repeated.filter((id) => ledger.begun(id) > 1 + (met.get(id)?.size ?? 0))).toEqual([]);
        const extra = repeated.reduce((sum, id) => sum + ledger.begun(id) - 1, 0);
        const inFlight = [...met.values()].reduce((sum, claims) => sum + claims.size, 0);
        expect(extra).toBeLessThanOrEqual(inFlight);
        if (IS_FULL)
          console.log({ kind, accepted: promised.accepted.size, stored: runs.length, extra, inFlight });
      });
    },
    IS_FULL ? 900_000 : undefined,
  );
}

/** Waits for runs whose 202 never came: nobody has waited for them, so they may still be queued. */
async function endLost(service: KillableService): Promise<void> {
  const { appNumber } = service;
  const lost = await service.withStore((store) =>
    store.runs.list({ appNumber, state: "queued", limit: RUNS }),
  );
  if (lost.length === 0) return;
  await service.start();
  await until("they have run", () => {
    const ledger = Ledger.read(service);
    return lost.every(({ id }) => ledger.ended(id) > 0);
  });
  await service.stop();
}

async function runningIn(service: KillableService): Promise<Run[]> {
  const { appNumber } = service;
  return await service.withStore((store) => store.runs.list({ appNumber, state: "running", limit: RUNS }));
}
