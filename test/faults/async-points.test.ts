import { expect, test } from "vitest";
import { testProgram } from "../support/command-line.ts";
import { DATABASE_KINDS, type DatabaseKind, testDatabases, triedKinds } from "../support/databases.ts";
import { FAULT_LENGTH } from "../support/fault-length.ts";
import { KillableService } from "../support/killable-service.ts";
import { endLeases } from "../support/leases.ts";
import { LEDGER_APP } from "../support/ledger.ts";
import { type Point, Victims } from "../support/victims.ts";
import { WebhookTarget } from "../support/webhook-target.ts";
import { verifies } from "../verifies.ts";

const MAIN = `${LEDGER_APP}
def die_once(n, run_id):
    path = os.path.join(os.environ["PERSISTENT_STORAGE"], "died-" + run_id)
    if not os.path.exists(path):
        open(path, "w").close()
        os._exit(1)
    return run(n, run_id)
`;

const POINTS: readonly Point[] = [
  { name: "runs.accept", hasWebhook: true, before: null, after: { state: "running" } },
  { name: "runs.acceptKeyed", isKeyed: true, before: null, after: { state: "queued" } },
  { name: "claims.claim", isKeyed: true, before: { state: "queued" }, after: { state: "running" } },
  {
    name: "claims.finish",
    hasWebhook: true,
    before: { state: "running", webhookState: "pending" },
    after: { state: "success", webhookState: "pending" },
  },
  {
    name: "claims.release",
    functionName: "die_once",
    hasWebhook: true,
    before: { state: "running", attempt: 1 },
    after: { state: "queued", attempt: 2, interruptions: 0 },
  },
  {
    name: "claims.finish",
    isSync: true,
    hasWebhook: true,
    before: { state: "running", isAsync: false, webhookState: "pending" },
    after: { state: "success", isAsync: false, webhookState: "pending" },
  },
  {
    name: "runs.insertFinished",
    isSync: true,
    before: null,
    after: { state: "success", isAsync: false },
  },
  {
    name: "deliveries.recordAttempt",
    hasWebhook: true,
    before: { state: "success", webhookState: "pending" },
    after: { state: "success", webhookState: "delivered" },
  },
];
const IS_FULL = FAULT_LENGTH === "full";
/** Amid: while the write is on its way. */
type Moment = "before" | "amid" | "after";
const MOMENTS: readonly Moment[] = ["before", "amid", "after"];
/** The short form meets every write once, on one database or the other. */
const SHORT: Record<DatabaseKind, Record<string, Moment>> = {
  sqlite: {
    "runs.accept": "after",
    "claims.finish": "after",
    "runs.insertFinished": "after",
    "deliveries.recordAttempt": "before",
  },
  postgres: { "runs.acceptKeyed": "after", "claims.claim": "after", "claims.release": "after" },
};

/** What the promise is about, beside all other tests. */
const IN_MINIMAL = new Set(["runs.accept", "claims.finish"]);

/** Where the service dies in this form of the test. */
function deaths(kind: DatabaseKind): { point: Point; moment: Moment }[] {
  const points = FAULT_LENGTH === "minimal" ? POINTS.filter(({ name }) => IN_MINIMAL.has(name)) : POINTS;
  return points.flatMap((point) => {
    const moments = IS_FULL ? MOMENTS : MOMENTS.filter((moment) => moment === SHORT[kind][point.name]);
    return moments.map((moment) => ({ point, moment }));
  });
}

const SCRIPT = testProgram("kill-point");
const databases = testDatabases();

for (const kind of triedKinds("sqlite")) {
  verifies(
    ["webhook.outbox", "webhook.outbox.sync"],
    `a service that dies around any write of a run's life leaves it whole, and the next one ends it, on ${kind}`,
    async () => {
      const target = await WebhookTarget.open();
      const app = { main: MAIN, toml: "[scaling]\nmax_replicas = 1\n" };
      const env = { MILLRACE_WEBHOOK_ALLOW: "127.0.0.0/8" };
      const service = await KillableService.deploy(await databases.fresh(kind), app, env);
      const victims = new Victims(service, target.url);
      for (const { point, moment } of deaths(kind)) {
        const program = [process.execPath, SCRIPT, point.name, moment] as const;
        expect(await service.start(program)).toBe(true);
        await victims.end();
        process.kill(service.command.pid, "SIGUSR2");
        await service.command.printed(/^armed$/m);
        const { n, promisedId } = await victims.post(point);
        expect(await service.command.exited).toBe("SIGKILL");
        const left = await service.withStore((store) => victims.find(store, n));
        // Of a sync call the answer is no promise that its record and its webhook outlive the service.
        const isKept = point.isSync || promisedId === null || left?.id === promisedId;
        const wanted = { before: point.before, amid: left, after: point.after }[moment];
        const where = { moment, name: point.name };
        expect({ ...where, isKept, left }).toMatchObject({ ...where, isKept: true, left: wanted });
        await endLeases(service.database);
      }
      expect(await service.start()).toBe(true);
      await victims.end();
      await victims.postAgain();
      await service.stop();
      await service.withStore((store) => victims.expectDelivered(store, target));
    },
    IS_FULL ? 900_000 : undefined,
  );
}

test("the short form meets every write", () => {
  const met = DATABASE_KINDS.flatMap((kind) => Object.keys(SHORT[kind]));
  expect(new Set(met)).toEqual(new Set(POINTS.map(({ name }) => name)));
});
