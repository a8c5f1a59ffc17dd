import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { formOf, tarOf } from "../../integration/once/site.ts";
import { testDatabases } from "../../support/databases.ts";
import { KillableService } from "../../support/killable-service.ts";
import { LEDGER_APP, Ledger, resultOf } from "../../support/ledger.ts";
import { untilRenewed } from "../../support/leases.ts";
import { ServiceClock } from "../../support/service-clock.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

/** How long a service counts as alive without a sign of life; it gives three in that time. */
const LEASE_MS = 6_000;

const WAIT_FOR_GO = `
import os, time
storage = os.environ["PERSISTENT_STORAGE"]
open(os.path.join(storage, "begun"), "w").close()
while not os.path.exists(os.path.join(storage, "go")):
    time.sleep(0.005)
`;

const databases = testDatabases();

test("a replica that stood still past response_grace_period comes too late with its result: one end, one webhook", async () => {
  const target = await WebhookTarget.open();
  const app = { main: LEDGER_APP, toml: '[scaling]\nmax_replicas = 1\nresponse_grace_period = "600s"\n' };
  const env = { MILLRACE_WEBHOOK_ALLOW: "127.0.0.0/8" };
  const service = await KillableService.deploy(await databases.fresh("sqlite"), app, env);
  const clock = new ServiceClock(service);
  expect(await clock.start()).toBe(true);
  const id = await accept(service, "hold", `&webhookEndpoint=${encodeURIComponent(target.url)}`);
  await until("it runs", () => Ledger.read(service).pids.has(id));
  const pid = Ledger.read(service).pids.get(id)!;
  process.kill(pid, "SIGSTOP");
  await clock.skip(600_000);
  expect(await service.ended(id)).toMatchObject({ status: "failure", statusCode: 504, attempt: 1 });
  await until(
    "its webhook is delivered",
    async () => (await service.find(id))?.webhookStatus === "delivered",
  );
  const end = await service.find(id);

  writeFileSync(path.join(service.storageDir, "go"), "");
  process.kill(pid, "SIGCONT");
  await until("it returns after all", () => Ledger.read(service).ended(id) === 1);
  // On the same replica, if it was in time: behind the late result, on the same connection.
  const next = await accept(service, "run");
  expect(await service.ended(next)).toMatchObject({ status: "success", result: resultOf(1) });
  expect(await service.find(id)).toEqual(end);
  expect(target.received.map(({ headers }) => headers["x-millrace-run-status"])).toEqual(["504"]);
  await service.stop();
});

test("a service that is stopping keeps its lease while it waits for its runs", async () => {
  const app = { main: LEDGER_APP, toml: "[scaling]\nmax_replicas = 1\n" };
  const service = await KillableService.deploy(await databases.fresh("postgres"), app);
  const clock = new ServiceClock(service);
  expect(await clock.start()).toBe(true);
  const id = await accept(service, "hold");
  await until("it runs", () => Ledger.read(service).begun(id) === 1);
  const stopped = service.stop();
  // The second time cannot have been on its way before the stop.
  for (let i = 0; i < 2; i++) await untilRenewed(service.database, 1, () => clock.skip(LEASE_MS / 3));
  writeFileSync(path.join(service.storageDir, "go"), "");
  await stopped;
  const { appNumber } = service;
  const run = await service.withStore((store) => store.runs.find({ appNumber, id }));
  expect(run).toMatchObject({ state: "success", interruptions: 0 });
});

verifies(
  "lease.file-runs",
  "a service that is stopping keeps its lease while it waits for a file run",
  async () => {
    const service = await KillableService.deploy(await databases.fresh("postgres"), { main: LEDGER_APP });
    const clock = new ServiceClock(service);
    expect(await clock.start()).toBe(true);
    const { projectId, baseUrl, storageDir, appNumber, token } = service;
    const place = `${baseUrl}/v3/projects/${projectId}/apps/${projectId}-app/run?filename=main.py`;
    const body = formOf(tarOf({ "main.py": WAIT_FOR_GO }));
    const headers = { authorization: `Bearer ${token}` };
    const { runId: id } = (await (await fetch(place, { method: "POST", headers, body })).json()) as {
      runId: string;
    };
    await until("it runs", () => existsSync(path.join(storageDir, "begun")));
    const stopped = service.stop();
    for (let i = 0; i < 2; i++) await untilRenewed(service.database, 1, () => clock.skip(LEASE_MS / 3));
    writeFileSync(path.join(storageDir, "go"), "");
    await stopped;
    const run = await service.withStore((store) => store.runs.find({ appNumber, id }));
    expect(run).toMatchObject({ state: "success", interruptions: 0 });
  },
);

async function accept(service: KillableService, functionName: string, query = ""): Promise<string> {
  const body = functionName === "hold" ? { n: 1, name: "go" } : { n: 1 };
  const { status, json } = await service.post(body, { functionName, query: `?async=true${query}` });
  expect(status).toBe(202);
  return json.run_id as string;
}
