import path from "node:path";
import { expect, test } from "vitest";
import { isFinal } from "../../src/model/run.ts";
import type { Run } from "../../src/model/run.ts";
import type { Calls } from "../../src/store/operations.ts";
import { DATABASE_KINDS, testDatabases } from "../support/databases.ts";
import { KillableService, inPostgres } from "../support/killable-service.ts";
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

type Left = Partial<Run> | null;

/** A write, a call that leads to it, and what must be in the store when the service died around it. */
type Point = {
  readonly name: string;
  readonly functionName?: string;
  readonly isSync?: boolean;
  readonly isKeyed?: boolean;
  readonly hasWebhook?: boolean;
  readonly before: Left;
  readonly after: Left;
};

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
    name: "runs.insertFinished",
    isSync: true,
    hasWebhook: true,
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
const IS_FULL = process.env["MILLRACE_FAULTS"] === "full";
/** Amid: while the write is on its way. */
const MOMENTS = IS_FULL ? ["before", "amid", "after"] : ["before", "after"];

const SCRIPT = path.join(REPOSITORY, "test", "support", "kill-point.ts");
const databases = testDatabases();

for (const kind of DATABASE_KINDS) {
  test(`a service that dies around any write of a run's life leaves it whole, and the next one ends it, on ${kind}`, async () => {
    const target = await WebhookTarget.open();
    const app = { main: MAIN, toml: "[scaling]\nmax_replicas = 1\n" };
    const env = { MILLRACE_WEBHOOK_ALLOW: "127.0.0.0/8" };
    const service = await KillableService.deploy(await databases.fresh(kind), app, env);
    const victims = new Victims(service, target.url);
    for (const point of POINTS) {
      for (const moment of MOMENTS) {
        const where = `${moment} ${point.name}`;
        expect(await service.start([process.execPath, SCRIPT, point.name, moment]), where).toBe(true);
        await victims.end();
        process.kill(service.command.pid, "SIGUSR2");
        await service.command.printed(/^armed$/m);
        const { n, promisedId } = await victims.post(point);
        expect(await service.command.exited, where).toBe("SIGKILL");
        const left = await service.withStore((store) => victims.find(store, n));
        const expected = moment === "before" ? point.before : point.after;
        if (moment !== "amid") expect(left, where).toEqual(expected && expect.objectContaining(expected));
        if (promisedId !== null && !point.isSync) expect(left?.id, where).toBe(promisedId);
        // As if its time had passed.
        await inPostgres(service.database, (client) => client.query("update owners set lease_until = 0"));
      }
    }
    expect(await service.start()).toBe(true);
    await victims.end();
    await victims.postAgain();
    await service.stop();
    await service.withStore((store) => victims.expectDelivered(store, target));
  }, 180_000);
}

/** Runs that met the death of their service. */
class Victims {
  readonly #service: KillableService;
  readonly #webhook: string;
  /** By their argument. */
  readonly #found = new Map<number, Run>();
  readonly #calls = new Map<number, Point>();
  readonly #ended = new Set<number>();

  constructor(service: KillableService, url: string) {
    this.#service = service;
    this.#webhook = encodeURIComponent(`${url}/hook`);
  }

  /** Calls; the service may die before it answers. */
  async post(point: Point): Promise<{ n: number; promisedId: string | null }> {
    const n = this.#calls.size + 1;
    this.#calls.set(n, point);
    const answer = await this.#call(n, point).catch(() => null);
    if (answer) expect(answer.status).toBe(point.isSync ? 200 : 202);
    return { n, promisedId: answer?.json.run_id ?? null };
  }

  async #call(n: number, { functionName = "run", isSync, isKeyed, hasWebhook }: Point) {
    const query = `?async=${!isSync}${hasWebhook ? `&webhookEndpoint=${this.#webhook}` : ""}`;
    const headers = isKeyed ? { "idempotency-key": `key-${n}` } : {};
    return await this.#service.post({ n }, { functionName, query, headers });
  }

  /** The run that came of a call, if one did: whole. */
  async find(store: Calls, n: number): Promise<Run | null> {
    const { appNumber, projectId } = this.#service;
    const known = new Set([...this.#found.values()].map(({ id }) => id));
    const runs = await store.runs.list({ appNumber, limit: 1_000 });
    const [run, ...others] = runs.filter(({ id }) => !known.has(id));
    expect(others).toEqual([]);
    if (!run) return null;
    this.#found.set(n, run);
    const payload = await store.payloads.find(run);
    expect(JSON.parse(String(payload?.input && Buffer.from(payload.input)))).toEqual({ n });
    const delivery = await store.deliveries.find({ projectId, id: run.id });
    expect(delivery !== null).toBe(isFinal(run.state) && run.webhookEndpoint !== null);
    expect(Boolean(payload?.result)).toBe(isFinal(run.state));
    return run;
  }

  /** Waits until all have ended, and their webhooks have come. */
  async end(): Promise<void> {
    for (const [n, { id, webhookEndpoint }] of this.#found) {
      if (this.#ended.has(n)) continue;
      expect(await this.#service.ended(id)).toMatchObject({ status: "success", result: resultOf(n) });
      const isDelivered = async () => (await this.#service.find(id))?.webhookStatus === "delivered";
      if (webhookEndpoint !== null) await until(`the webhook of ${id} is delivered`, isDelivered, 20_000);
      this.#ended.add(n);
    }
    const ledger = Ledger.read(this.#service);
    for (const { id } of this.#found.values()) expect(ledger.begun(id)).toBeLessThanOrEqual(2);
  }

  /** Callers with keys try again: they get the run that is there, or one that was not. */
  async postAgain(): Promise<void> {
    for (const [n, point] of [...this.#calls].filter(([, { isKeyed }]) => isKeyed)) {
      const { status, headers, json } = await this.#call(n, point);
      const found = this.#found.get(n);
      expect(status).toBe(202);
      expect(headers.get("idempotent-replayed")).toBe(found ? "true" : null);
      if (found) expect(json.run_id).toBe(found.id);
      expect(await this.#service.ended(json.run_id)).toMatchObject({
        status: "success",
        result: resultOf(n),
      });
    }
  }

  /** Every webhook came at least once, each time the same. */
  async expectDelivered(store: Calls, target: WebhookTarget): Promise<void> {
    const { appNumber } = this.#service;
    const runs = await store.runs.list({ appNumber, limit: 1_000 });
    const withWebhook = runs.filter(({ webhookEndpoint }) => webhookEndpoint !== null);
    expect(withWebhook.filter(({ webhookState }) => webhookState !== "delivered")).toEqual([]);
    const ids = new Set(withWebhook.map(({ id }) => id));
    expect(new Set(target.received.map(({ headers }) => headers["webhook-id"]))).toEqual(ids);
    for (const { headers, body } of target.received) {
      const payload = await store.payloads.find({ appNumber, id: String(headers["webhook-id"]) });
      expect(body.equals(payload?.result ?? Buffer.alloc(0))).toBe(true);
    }
  }
}
