import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { openStore } from "../../src/store/store.ts";
import { movableDatabaseClock } from "../support/database-clock.ts";
import { testDatabases } from "../support/databases.ts";
import { KillableService } from "../support/killable-service.ts";
import { LEDGER_APP, Ledger, resultOf } from "../support/ledger.ts";
import { signOfLife, untilRenewed } from "../support/leases.ts";
import { samplePayload, sampleRun } from "../support/sample-run.ts";
import { ServiceClock } from "../support/service-clock.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const APP = { main: LEDGER_APP, toml: "[scaling]\nmax_replicas = 2\n" };
const HELD = { n: 1, name: "go" };

const RENEW_MS = 2_000;

const databases = testDatabases();

verifies(
  "lease.late-start",
  "when the clock of a shared Postgres jumps, no service takes over the runs of another that lives",
  async () => {
    const first = await KillableService.deploy(await databases.fresh("postgres"), APP);
    const setAhead = await movableDatabaseClock(first.database);
    const second = await first.sibling((await databases.fresh("sqlite")).dataDir);
    const clocks = [new ServiceClock(first), new ServiceClock(second)] as const;
    for (const clock of clocks) expect(await clock.start()).toBe(true);
    const accepted = { functionName: "hold", query: "?async=true" };
    const answers = [await first.post(HELD, accepted), await first.post(HELD, accepted)];
    const ids = answers.map(({ json }) => json.run_id as string);
    // The app belongs to either of them.
    const begun = (): number[] =>
      ids.map((id) => Ledger.read(first).begun(id) + Ledger.read(second).begun(id));
    await until("both run", () => begun().every((count) => count === 1));
    for (const ahead of ["1 hour", "0", "-1 hour", "0", "10 years"]) {
      await setAhead(ahead);
      // The second looks for the dead before the first, whose lease may have ended long ago, has said that it lives.
      for (const clock of clocks.toReversed()) {
        await untilRenewed(first.database, 1, () => clock.skip(RENEW_MS));
      }
      await untilRenewed(first.database, 1, () => clocks[1].skip(RENEW_MS));
    }
    for (const { storageDir } of [first, second]) {
      mkdirSync(storageDir, { recursive: true });
      writeFileSync(path.join(storageDir, "go"), "");
    }
    for (const id of ids) {
      expect(await second.ended(id)).toMatchObject({ status: "success", result: resultOf(1) });
    }
    for (const { command } of [first, second]) expect(command.stderr).not.toContain("ignored a late outcome");
    expect(begun()).toEqual([1, 1]);
    await Promise.all([first.stop(), second.stop()]);
  },
);

test("a dead service's lease ends though the clock of its Postgres was set back", async () => {
  const database = await databases.fresh("postgres");
  await (await openStore(database)).close();
  const setAhead = await movableDatabaseClock(database);
  const store = await openStore(database);
  try {
    await setAhead("1 hour");
    await signOfLife(store, "dead", 6_000);
    const createdAt = Date.now();
    await store.projects.insert({ id: "p-clock", name: "test", createdAt });
    const { number } = await store.apps.insertOrFind({ projectId: "p-clock", name: "app", createdAt });
    const run = sampleRun({ appNumber: number, state: "running" });
    await store.runs.accept([{ run, payload: samplePayload(), owner: "dead" }]);
    await setAhead("0");
    const recover = async () => await store.claims.recover({ owner: "living", isAlone: false });
    await signOfLife(store, "living", 6_000);
    expect(await recover()).toBe(0);
    await setAhead("61 seconds");
    expect(await recover()).toBe(1);
  } finally {
    await store.close();
  }
});
