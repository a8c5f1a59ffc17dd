import { expect } from "vitest";
import { isFinal, type Run } from "../../src/model/run.ts";
import type { Calls } from "../../src/store/operations.ts";
import type { KillableService } from "./killable-service.ts";
import { Ledger, resultOf } from "./ledger.ts";
import { until } from "./until.ts";
import type { WebhookTarget } from "./webhook-target.ts";

type Left = Partial<Run> | null;

/** A write, a call that leads to it, and what must be in the store when the service died around it. */
export type Point = {
  readonly name: string;
  readonly functionName?: string;
  readonly isSync?: boolean;
  readonly isKeyed?: boolean;
  readonly hasWebhook?: boolean;
  readonly before: Left;
  readonly after: Left;
};

/** Runs that met the death of their service. */
export class Victims {
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
    // A sync call is never executed again: its input is stored with its end.
    if (run.isAsync || isFinal(run.state)) {
      expect(JSON.parse(String(payload?.input && Buffer.from(payload.input)))).toEqual({ n });
    }
    const delivery = await store.deliveries.find({ projectId, id: run.id });
    expect(delivery !== null).toBe(isFinal(run.state) && run.webhookEndpoint !== null);
    expect(Boolean(payload?.result)).toBe(isFinal(run.state));
    return run;
  }

  /** Waits until all have ended, and their webhooks have come. */
  async end(): Promise<void> {
    for (const [n, { id, webhookEndpoint, state, isAsync }] of this.#found) {
      if (this.#ended.has(n)) continue;
      // Whoever waited for it has gone with the service.
      const isInterrupted = !isAsync && !isFinal(state);
      const record = await this.#service.ended(id);
      if (isInterrupted) expect(record).toMatchObject({ status: "failure", error: { code: "interrupted" } });
      else expect(record).toMatchObject({ status: "success", result: resultOf(n) });
      const isDelivered = async () => (await this.#service.find(id))?.webhookStatus === "delivered";
      if (webhookEndpoint !== null) await until(`the webhook of ${id} is delivered`, isDelivered);
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
