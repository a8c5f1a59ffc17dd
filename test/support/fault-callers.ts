import { setTimeout as pause } from "node:timers/promises";
import type { KillableService } from "./killable-service.ts";

/** What became of an async call. */
export type Submitted = { readonly status: number; readonly code: string; readonly id: string };

/** What an operator saw at one look. */
export type Look = { readonly ready: number; readonly says: string; readonly management: number };

/** One stretch of time as callers and an operator lived it. */
export class Stretch {
  /** Answers of sync calls, by status and code. */
  readonly answers = new Map<string, number>();
  readonly syncIds: string[] = [];
  readonly submitted: Submitted[] = [];
  readonly looks: Look[] = [];
  /** The longest that a management request took. */
  slowestMs = 0;
  #lengthMs: number | null = null;
  readonly #startedAt = performance.now();

  end(): void {
    this.#lengthMs = this.lengthMs;
  }

  get lengthMs(): number {
    return this.#lengthMs ?? performance.now() - this.#startedAt;
  }

  get syncCalls(): number {
    return [...this.answers.values()].reduce((sum, count) => sum + count, 0);
  }

  get callsPerSecond(): number {
    return this.syncCalls / (this.lengthMs / 1_000);
  }

  count(answer: string): void {
    this.answers.set(answer, (this.answers.get(answer) ?? 0) + 1);
  }

  /** How many async calls were answered so. */
  outcomes(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { status, code } of this.submitted) {
      const name = status === 202 ? "202" : `${status} ${code}`;
      counts[name] = (counts[name] ?? 0) + 1;
    }
    return counts;
  }
}

const SYNC_CALLERS = 4;
/** More wait for a hanging database than a caller of this patience would send. */
const MAX_UNANSWERED = 40;
const ASYNC_EVERY_MS = 100;
const LOOK_EVERY_MS = 250;

/**
 * Sync callers, async callers and an operator, who go on whatever happens. What they meet is written down in the
 * stretch in which they asked; a sync call counts where it was answered.
 */
export class FaultCallers {
  readonly #service: KillableService;
  readonly #loops: Promise<void>[] = [];
  readonly #unanswered = new Set<Promise<void>>();
  readonly #padBytes: number;
  #failure: Error | null = null;
  #isOver = false;
  #sent = 0;
  #stretch = new Stretch();

  /** Async calls carry that much that cannot be compressed. */
  constructor(service: KillableService, padBytes = 0) {
    this.#service = service;
    this.#padBytes = padBytes;
    for (let n = 0; n < SYNC_CALLERS; n++) this.#loops.push(this.#callSync().catch(this.#fail));
    this.#loops.push(this.#every(ASYNC_EVERY_MS, () => this.#submit()));
    this.#loops.push(this.#every(LOOK_EVERY_MS, () => this.#look()));
  }

  /** From now on it is another stretch. */
  begin(): Stretch {
    this.#stretch.end();
    this.#stretch = new Stretch();
    return this.#stretch;
  }

  /** Throws if somebody was not answered at all. */
  check(): void {
    if (this.#failure) throw this.#failure;
  }

  /** Sends nothing more, and waits for every answer. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all([...this.#loops, ...this.#unanswered]);
    this.check();
  }

  readonly #fail = (error: unknown): void => {
    this.#failure ??= new Error("somebody was not answered", { cause: error });
  };

  async #callSync(): Promise<void> {
    while (!this.#isOver) {
      const { status, json } = await this.#service.post({ n: 1 }, { functionName: "plain" });
      this.#stretch.count(status === 200 ? "200" : `${status} ${json.code}`);
      if (this.#stretch.syncIds.length < 20) this.#stretch.syncIds.push(json.run_id);
    }
  }

  async #submit(): Promise<void> {
    const stretch = this.#stretch;
    const pad = Buffer.from(crypto.getRandomValues(new Uint8Array(this.#padBytes))).toString("base64");
    const { status, json, headers } = await this.#service.post(
      { n: this.#sent++, pad },
      { query: "?async=true" },
    );
    stretch.submitted.push({ status, code: json.code ?? "", id: headers.get("x-request-id") ?? "" });
  }

  async #look(): Promise<void> {
    const stretch = this.#stretch;
    const { baseUrl, projectId, token } = this.#service;
    const startedAt = performance.now();
    const headers = { authorization: `Bearer ${token}` };
    const [apps, ready] = await Promise.all([
      fetch(`${baseUrl}/v2/projects/${projectId}/apps`, { headers }),
      fetch(`${baseUrl}/readyz`),
    ]);
    await apps.text();
    stretch.slowestMs = Math.max(stretch.slowestMs, performance.now() - startedAt);
    const { status: says } = (await ready.json()) as { status: string };
    stretch.looks.push({ ready: ready.status, says, management: apps.status });
  }

  async #every(pauseMs: number, ask: () => Promise<void>): Promise<void> {
    while (!this.#isOver) {
      if (this.#unanswered.size < MAX_UNANSWERED) {
        const asked = ask()
          .catch(this.#fail)
          .finally(() => this.#unanswered.delete(asked));
        this.#unanswered.add(asked);
      }
      await pause(pauseMs);
    }
  }
}
