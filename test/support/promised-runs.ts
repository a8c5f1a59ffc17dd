import { expect } from "vitest";
import type { KillableService } from "./killable-service.ts";
import { resultOf } from "./ledger.ts";

/** Clients of the ledger's app: every 202 they got is a promise, and they remember it. */
export class PromisedRuns {
  /** The argument of each run that was accepted, by its id. */
  readonly accepted = new Map<string, number>();
  readonly #service: KillableService;
  #last = 0;

  constructor(service: KillableService) {
    this.#service = service;
  }

  /** Several clients that post until so many runs are accepted, or the service is gone. */
  async post(count: number, { clients = 8, ms = 0, padBytes = 0 } = {}): Promise<void> {
    const client = async (): Promise<void> => {
      while (this.accepted.size < count && (await this.#postOne(ms, padBytes)));
    };
    await Promise.all(Array.from({ length: clients }, client));
  }

  /** Waits until every run has ended, and well, in the service that took them or another one. */
  async keep(service = this.#service): Promise<void> {
    const waiting = [...this.accepted];
    const look = async (): Promise<void> => {
      for (let next = waiting.shift(); next; next = waiting.shift()) {
        const [id, n] = next;
        const run = await service.ended(id);
        expect(run).toMatchObject({ status: "success", statusCode: 200, async: true, result: resultOf(n) });
      }
    };
    await Promise.all(Array.from({ length: 8 }, look));
  }

  /** False when the service is gone: whether that run was accepted nobody knows. */
  async #postOne(maxMs: number, maxPadBytes: number): Promise<boolean> {
    const n = (this.#last += 1);
    const body = { n, ms: Math.random() * maxMs, pad: "x".repeat(Math.random() * maxPadBytes) };
    const answer = await this.#service.post(body, { query: "?async=true" }).catch(() => null);
    if (!answer) return false;
    const { status, headers, json } = answer;
    expect([status, Object.keys(json)]).toEqual([202, ["run_id"]]);
    expect(headers.get("x-request-id")).toBe(json.run_id);
    this.accepted.set(json.run_id, n);
    return true;
  }
}
