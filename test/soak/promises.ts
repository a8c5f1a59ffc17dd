import { setTimeout as sleep } from "node:timers/promises";
import type { FoundRun, KillableService } from "../support/killable-service.ts";
import { Ledger, resultOf } from "../support/ledger.ts";
import { until } from "../support/until.ts";
import type { WebhookTarget } from "../support/webhook-target.ts";

/** A run that somebody was told to come back for. */
export type Promised = {
  readonly n: number;
  /** Async, async and cancelled, or a stream that runs on without its caller. */
  readonly kind: "async" | "cancelled" | "kept";
  readonly hasWebhook: boolean;
};

const LOOK_MS = 50;
const LOOKERS = 8;

/** Remembers every run that was accepted, and looks how it ends: once, and as it should. */
export class Promises {
  readonly accepted = new Map<string, Promised>();
  readonly breaches: string[] = [];
  /** How each ended when that was first seen. */
  readonly ends = new Map<string, string>();
  readonly #service: KillableService;
  readonly #waiting: string[] = [];
  #isOver = false;
  #looking: Promise<void> = Promise.resolve();

  constructor(service: KillableService) {
    this.#service = service;
  }

  made(id: string, promised: Promised): void {
    // A key that is shown again gives the same run again.
    if (this.accepted.has(id)) return;
    this.accepted.set(id, promised);
    this.#waiting.push(id);
  }

  /** Looks after the promises while the load goes on. */
  start(): void {
    this.#looking = (async () => {
      while (!this.#isOver) {
        await this.#look(this.#waiting.splice(0, 200));
        await sleep(LOOK_MS);
      }
    })();
  }

  /** Waits until every one has ended, then looks again whether it stayed that way. */
  async keep(): Promise<void> {
    this.#isOver = true;
    await this.#looking;
    await until("every accepted run has ended", async () => {
      await this.#look(this.#waiting.splice(0));
      return this.#waiting.length === 0;
    });
    const first = new Map(this.ends);
    await this.#each([...this.accepted.keys()], async (id) => {
      const now = endOf(await this.#service.find(id));
      if (now !== first.get(id)) this.breaches.push(`${id} ended as ${first.get(id)}, and again as ${now}`);
    });
    const ledger = Ledger.read(this.#service);
    for (const [id, { kind }] of this.accepted) {
      if (kind === "async" && ledger.ended(id) === 0)
        this.breaches.push(`${id} is a success that never ran to its end`);
    }
  }

  /** Every webhook has come, each time the same. */
  async delivered({ received, news }: WebhookTarget): Promise<void> {
    const expected = [...this.accepted].filter(([, { hasWebhook }]) => hasWebhook).map(([id]) => id);
    const came = (): Set<string> => new Set(received.map(({ headers }) => String(headers["webhook-id"])));
    await until(
      "every webhook has come",
      () => {
        const ids = came();
        return expected.every((id) => ids.has(id));
      },
      news,
    );
    const bodies = new Map<string, string>();
    for (const { headers, body } of received) {
      const id = String(headers["webhook-id"]);
      const text = body.toString();
      if ((bodies.get(id) ?? text) !== text) this.breaches.push(`the webhook of ${id} came with two bodies`);
      bodies.set(id, text);
    }
  }

  async #look(ids: readonly string[]): Promise<void> {
    await this.#each(ids, async (id) => {
      // It may be between two lives.
      const run = await this.#service.find(id).catch(() => null);
      const end = endOf(run);
      if (run === null || end === null) {
        this.#waiting.push(id);
        return;
      }
      this.ends.set(id, end);
      this.#judge(id, run);
    });
  }

  #judge(id: string, { status, result, error, statusCode }: FoundRun): void {
    const { n, kind } = this.accepted.get(id)!;
    const isGood = status === "success" && statusCode === 200;
    if (kind === "async" && isGood && result === resultOf(n)) return;
    if (kind === "cancelled" && (status === "cancelled" || (isGood && result === resultOf(n)))) return;
    // Nobody starts a stream anew: it ends with its replica or its service.
    if (kind === "kept" && (isGood || error?.code === "interrupted" || error?.code === "app_crashed")) return;
    this.breaches.push(
      `${kind} ${id} ended as ${JSON.stringify({ status, statusCode, result, error }).slice(0, 300)}`,
    );
  }

  async #each(ids: readonly string[], act: (id: string) => Promise<void>): Promise<void> {
    const left = ids.values();
    const worker = async (): Promise<void> => {
      for (const id of left) await act(id);
    };
    await Promise.all(Array.from({ length: LOOKERS }, worker));
  }
}

/** What an end is recognised by; null of one that has not ended. */
function endOf(run: FoundRun | null): string | null {
  if (!run || run.status === "queued" || run.status === "running") return null;
  return `${run.status} ${run.statusCode} ${run.completedAt}`;
}
