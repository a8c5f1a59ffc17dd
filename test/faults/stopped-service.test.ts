import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { movableDatabaseClock } from "../support/database-clock.ts";
import { testDatabases } from "../support/databases.ts";
import { KillableService } from "../support/killable-service.ts";
import { LEDGER_APP, Ledger, resultOf } from "../support/ledger.ts";
import { endLeases, untilRenewed } from "../support/leases.ts";
import { ServiceClock } from "../support/service-clock.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

/** How long a service counts as alive without a sign of life; it gives three in that time. */
const LEASE_MS = 6_000;

const databases = testDatabases();

test("a service that stood still past its lease finds its runs taken over: its late ends are refused", async () => {
  const app = { main: LEDGER_APP, toml: "[scaling]\nmax_replicas = 2\n" };
  const first = await KillableService.deploy(await databases.fresh("postgres"), app);
  const setDatabaseAhead = await movableDatabaseClock(first.database);
  const second = await first.sibling((await databases.fresh("sqlite")).dataDir);
  const clock = new ServiceClock(second);
  expect(await first.start()).toBe(true);
  const ids = [await accept(first, "hold"), await accept(first, "hold")];
  const allBegun = (service: KillableService) => ids.every((id) => Ledger.read(service).begun(id) === 1);
  await until("both run", () => allBegun(first));
  expect(await clock.start()).toBe(true);
  process.kill(first.command.pid, "SIGSTOP");
  // Its replicas go on, and their results wait for it.
  writeFileSync(path.join(first.storageDir, "go"), "");
  await setDatabaseAhead(`${LEASE_MS} milliseconds`);
  await clock.skip(LEASE_MS);
  await until("both are taken over", () => allBegun(second));
  mkdirSync(second.storageDir, { recursive: true });
  writeFileSync(path.join(second.storageDir, "go"), "");
  for (const id of ids) {
    expect(await second.ended(id)).toMatchObject({ status: "success", result: resultOf(1), attempt: 1 });
  }
  const ends = await Promise.all(ids.map((id) => second.find(id)));

  process.kill(first.command.pid, "SIGCONT");
  const refused = () =>
    first.command.stderr.split("ignored a late outcome: the run was claimed again").length - 1;
  await until("the late ends are refused", () => refused() === ids.length);
  expect(await Promise.all(ids.map((id) => second.find(id)))).toEqual(ends);
  expect(ids.map((id) => Ledger.read(first).ended(id))).toEqual([1, 1]);
  for (const service of [first, second]) {
    const next = await accept(service, "run");
    expect(await service.ended(next)).toMatchObject({ status: "success", result: resultOf(1) });
  }
  await Promise.all([first.stop(), second.stop()]);
});

verifies(
  "lease.late-start",
  "a service that starts takes nothing from one that could not renew its lease",
  async () => {
    const app = { main: LEDGER_APP, toml: "[scaling]\nmax_replicas = 1\n" };
    const first = await KillableService.deploy(await databases.fresh("postgres"), app);
    const second = await first.sibling((await databases.fresh("sqlite")).dataDir);
    // Its time stands still: it says nothing until it is to.
    const clock = new ServiceClock(first);
    expect(await clock.start()).toBe(true);
    const id = await accept(first, "hold");
    await until("it runs", () => Ledger.read(first).begun(id) === 1);
    await endLeases(first.database);
    expect(await second.start()).toBe(true);
    expect(second.command.stderr).not.toContain("requeued runs");
    expect(await second.find(id)).toMatchObject({ status: "running" });
    await untilRenewed(first.database, 1, () => clock.skip(LEASE_MS / 3));
    writeFileSync(path.join(first.storageDir, "go"), "");
    expect(await second.ended(id)).toMatchObject({ status: "success", result: resultOf(1) });
    expect(first.command.stderr).not.toContain("ignored a late outcome");
    await Promise.all([first.stop(), second.stop()]);
  },
);

async function accept(service: KillableService, functionName: string, query = ""): Promise<string> {
  const body = functionName === "hold" ? { n: 1, name: "go" } : { n: 1 };
  const { status, json } = await service.post(body, { functionName, query: `?async=true${query}` });
  expect(status).toBe(202);
  return json.run_id as string;
}
