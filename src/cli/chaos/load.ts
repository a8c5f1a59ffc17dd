import { setTimeout as sleep } from "node:timers/promises";
import { ACCEPTED_RUN } from "../../shapes/runs.ts";
import { checked } from "../../shapes/shape.ts";
import { send, textOf } from "../api/http.ts";
import { readEnvelope } from "../output/run-envelope.ts";
import { LEDGER_APP, resultOf } from "./ledger.ts";
import type { Address } from "./scratch-service.ts";

/** What became of the calls whose callers waited. */
export type SyncCalls = {
  answered: number;
  /** Told so by a status. */
  failed: number;
  /** Lost their connection. */
  cut: number;
  /** With a result that is not the function's. */
  wrong: number;
  /** Never answered at all. */
  stuck: number;
};

const ASYNC_CLIENTS = 3;
const SYNC_CLIENTS = 3;
const MAX_RUN_MS = 30;
/** A client rests that long: on a small machine the backlog must not outgrow the waiting at the end. */
const REST_MS = 75;
const ANSWER_MS = 30_000;

/** Clients of the ledger's app, some that wait and some that do not; they remember every 202 as a promise. */
export class Load {
  /** The argument of each async run that was accepted, by the run's id. */
  readonly accepted = new Map<string, number>();
  readonly calls: SyncCalls = { answered: 0, failed: 0, cut: 0, wrong: 0, stuck: 0 };
  /** The service's current address, which changes with each start; null while it is down, when no calls are made. */
  address: Address | null;
  #last = 0;
  #isOver = false;
  readonly #clients: Promise<unknown>;

  constructor(address: Address) {
    this.address = address;
    const begin = async (count: number, call: () => Promise<unknown>): Promise<void> => {
      const client = async (): Promise<void> => {
        while (!this.#isOver) {
          if (this.address) await call();
          await sleep(REST_MS);
        }
      };
      await Promise.all(Array.from({ length: count }, client));
    };
    this.#clients = Promise.all([
      begin(ASYNC_CLIENTS, async () => await this.submit(Math.random() * MAX_RUN_MS)),
      begin(SYNC_CLIENTS, async () => await this.#call(Math.random() * MAX_RUN_MS)),
    ]);
  }

  /** Submits one async run; resolves with its id, or null when it was not accepted as far as anybody knows. */
  async submit(ms: number): Promise<string | null> {
    const n = (this.#last += 1);
    const answer = await this.#post("run?async=true", { n, ms }).catch(() => null);
    if (answer?.status !== 202) return null;
    const { run_id: id } = checked(ACCEPTED_RUN, JSON.parse(answer.text));
    this.accepted.set(id, n);
    return id;
  }

  /** No more calls; resolves when every caller has its answer. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#clients;
  }

  async #call(ms: number): Promise<void> {
    const n = (this.#last += 1);
    const startedAt = performance.now();
    try {
      const { status, text } = await this.#post("run", { n, ms });
      if (status !== 200) this.calls.failed += 1;
      else if (Number(readEnvelope(text)?.result) === resultOf(n)) this.calls.answered += 1;
      else this.calls.wrong += 1;
    } catch {
      if (performance.now() - startedAt < ANSWER_MS) this.calls.cut += 1;
      else this.calls.stuck += 1;
    }
  }

  async #post(what: string, body: object): Promise<{ status: number; text: string }> {
    if (!this.address) throw new Error("the service is down");
    const { apiUrl, projectId, token } = this.address;
    const answer = await send(`${apiUrl}/v4/${projectId}/${LEDGER_APP.name}/${what}`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    return { status: answer.status, text: await textOf(answer) };
  }
}
