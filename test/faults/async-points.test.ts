import { existsSync } from "node:fs";
import path from "node:path";
import { Client } from "pg";
import { expect, test } from "vitest";
import { isFinal } from "../../src/model/run.ts";
import type { Run } from "../../src/model/run.ts";
import type { Store } from "../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../support/databases.ts";
import { KillableService } from "../support/killable-service.ts";
import type { PostOptions } from "../support/killable-service.ts";
import { LEDGER_APP, Ledger, resultOf } from "../support/ledger.ts";
import { until } from "../support/service.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { WebhookTarget } from "../support/webhook-target.ts";

const MAIN = `${LEDGER_APP}
def die_once(n, run_id):
    path = os.path.join(os.environ["PERSISTENT_STORAGE"], "died-" + run_id)
    if not os.path.exists(path):
        open(path, "w").close()
        os._exit(1)
    return run(n, run_id)
`;

type Moment = "before" | "amid" | "after";

/** A write, a call that leads to it, and what must be in the store when the service died around it. */
type Point = {
  readonly call: Omit<PostOptions, "query"> & { readonly isSync?: boolean; readonly hasWebhook?: boolean };
  readonly before: Left;
  readonly after: Left;
};
type Left = Partial<Run> | null;

const WEBHOOK = { hasWebhook: true };
const POINTS: Record<string, Point> = {
  "runs.accept": { call: WEBHOOK, before: null, after: { state: "running" } },
  "runs.acceptKeyed": { call: { headers: { "idempotency-key": "KEY" } }, before: null, after: { state: "queued" } },
  "claims.claim": {
    call: { headers: { "idempotency-key": "KEY" } },
    before: { state: "queued" },
    after: { state: "running" },
  },
  "claims.finish": {
    call: WEBHOOK,
    before: { state: "running", webhookState: "pending" },
    after: { state: "success", webhookState: "pending" },
  },
  "claims.release": {
    call: { functionName: "die_once", ...WEBHOOK },
    before: { state: "running", attempt: 1 },
    after: { state: "queued", attempt: 2, interruptions: 0 },
  },
  "runs.insertFinished": {
    call: { isSync: true, ...WEBHOOK },
    before: null,
    after: { state: "success", isAsync: false },
  },
  "deliveries.recordAttempt": {
    call: WEBHOOK,
    before: { state: "success", webhookState: "pending" },
    after: { state: "success", webhookState: "delivered" },
  },
};

const MOMENTS: readonly Moment[] = ["before", "amid", "after"];
const SCRIPT = path.join(REPOSITORY, "test", "support", "kill-point.ts");
const databases = testDatabases();

for (const kind of DATABASE_KINDS) {
  test(`a service that dies around any write of a run's life leaves it whole, and the next one ends it, on ${kind}`, async () => {
    const target = await WebhookTarget.open();
    const app = { main: MAIN, toml: "[scaling]\nmax_replicas = 1\n" };
    const service = await KillableService.deploy(await databases.fresh(kind), app, {
      MILLRACE_WEBHOOK_ALLOW: "127.0.0.0/8",
    });
    const seen = new Map<string, number>();
    let n = 0;
    for (const [name, point] of Object.entries(POINTS)) {
      for (const moment of MOMENTS) {
        n += 1;
        const where = `${moment} ${name}`;
        expect(await service.start([process.execPath, SCRIPT, name, moment]), where).toBe(true);
        await settled(service, seen);
        process.kill(service.command.pid, "SIGUSR2");
        await service.command.printed(/^armed$/m);
        const runId = await die(service, point, n, target.url);
        await service.withStore(async (store) => {
          const run = await onlyNew(store, service.appNumber, seen);
          if (runId !== null && !point.call.isSync) expect(run?.id, where).toBe(runId);
          const left = moment === "before" ? point.before : point.after;
          if (moment !== "amid") expect(run, where).toEqual(left && expect.objectContaining(left));
          if (run) {
            seen.set(run.id, n);
            await expectWhole(store, service, run, where);
          }
        });
        await expireLeases(service);
      }
    }
    expect(await service.start()).toBe(true);
    await settled(service, seen);
    expect(seen.size).toBeGreaterThanOrEqual(Object.keys(POINTS).length);
    await service.stop();
    await expectDelivered(service, target, seen);
  }, 180_000);
}
