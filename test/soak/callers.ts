import { setTimeout as sleep } from "node:timers/promises";
import type { Roll } from "../support/dice.ts";
import { DeployClient } from "../support/deploy-client.ts";
import type { KillableService } from "../support/killable-service.ts";
import { resultOf } from "../support/ledger.ts";
import { StreamReader } from "../support/stream-reader.ts";
import { zipOf } from "../support/zip.ts";
import type { Promises } from "./promises.ts";
import { loadedApp } from "./soak-apps.ts";
import type { Turmoil } from "./turmoil.ts";

/** Between two requests of one caller, at most. */
const REST_MS = 120;
const RUN_MS = 15;
const DEPLOY_GAP_MS = 25_000;
/** The sleeping app is called again so long after it fell asleep, at most. */
const SLEEP_MS = 4_000;

type Asked = { readonly query?: string; readonly headers?: Record<string, string> };
type Request = {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
};
// oxlint-disable-next-line no-explicit-any
type Answered = { readonly status: number; readonly json: any };

type Parts = {
  readonly service: KillableService;
  readonly promises: Promises;
  readonly turmoil: Turmoil;
  readonly roll: Roll;
  readonly webhook: string;
};

/** What the callers met, added up. */
export type Tally = Record<
  | "answered"
  | "failed"
  | "cut"
  | "accepted"
  | "refused"
  | "streams"
  | "left"
  | "cancels"
  | "deploys"
  | "wakes",
  number
>;

/** Everybody who uses the service: they call, submit, stream, cancel and deploy until they are told to stop. */
export class Callers {
  readonly tally: Tally = {
    answered: 0,
    failed: 0,
    cut: 0,
    accepted: 0,
    refused: 0,
    streams: 0,
    left: 0,
    cancels: 0,
    deploys: 0,
    wakes: 0,
  };
  /** How long sync calls took that met no fault, since they were last taken. */
  latenciesMs: number[] = [];
  /** What must not have been. */
  readonly breaches: string[] = [];
  readonly #parts: Parts;
  readonly #open = new Set<AbortController>();
  readonly #readers = new Set<StreamReader>();
  #isOver = false;
  #n = 0;
  #version = 0;
  #all: Promise<unknown> = Promise.resolve();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  start(): void {
    const rest = (): number => this.#parts.roll(REST_MS);
    const callers: Promise<void>[] = [];
    const begin = (count: number, act: () => Promise<void>, pause = rest): void => {
      for (let each = 0; each < count; each++) callers.push(this.#again(act, pause));
    };
    begin(4, () => this.#sync());
    begin(3, () => this.#submit());
    begin(2, () => this.#stream());
    begin(1, () => this.#cancelOne());
    begin(
      1,
      () => this.#deploy(),
      () => this.#parts.roll(DEPLOY_GAP_MS),
    );
    begin(
      1,
      () => this.#wake(),
      () => this.#parts.roll(SLEEP_MS),
    );
    this.#all = Promise.all(callers);
  }

  /** No more requests; resolves when all have their answers. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#all;
  }

  /** Some of those who wait are gone from one moment to the next. */
  drop(): void {
    for (const open of this.#open) if (this.#parts.roll(2) < 1) open.abort();
    for (const reader of this.#readers) if (this.#parts.roll(2) < 1) reader.vanish();
  }

  /** Whether a call is answered just now. */
  async probe(): Promise<boolean> {
    const n = (this.#n += 1);
    const answer = await this.#parts.service.post({ n }).catch(() => null);
    return answer?.status === 200;
  }

  async #again(act: () => Promise<void>, pause: () => number): Promise<void> {
    while (!this.#isOver) {
      await act();
      await sleep(pause());
    }
  }

  async #sync(): Promise<void> {
    const { roll, turmoil } = this.#parts;
    const isCalm = turmoil.watch();
    const n = (this.#n += 1);
    const from = performance.now();
    const answer = await this.#post("run", { n, ms: roll(RUN_MS) });
    if (!answer) this.tally.cut += 1;
    else if (answer.status !== 200) this.tally.failed += 1;
    else if (answer.json.result !== resultOf(n))
      this.breaches.push(`call ${n}: ${JSON.stringify(answer.json)}`);
    else this.tally.answered += 1;
    if (!isCalm()) return;
    if (answer?.status === 200) this.latenciesMs.push(performance.now() - from);
    else this.#breach("a sync call without any fault", answer);
  }

  async #submit(): Promise<void> {
    const { roll, promises, turmoil, webhook } = this.#parts;
    const isCalm = turmoil.watch();
    const n = (this.#n += 1);
    const hasWebhook = roll(4) < 1;
    const headers = roll(3) < 1 ? { "idempotency-key": `soak-${n}` } : undefined;
    const query = `?async=true${hasWebhook ? `&webhookEndpoint=${webhook}` : ""}`;
    const body = { n, ms: roll(RUN_MS), pad: "x".repeat(roll(20_000)) };
    const ask = async (): Promise<Answered | null> =>
      await this.#post("run", body, { query, ...(headers && { headers }) });
    let answer = await ask();
    // Whoever has a key asks until it knows, as clients do.
    if (headers) {
      while (answer?.status !== 202 && !this.#isOver) {
        await sleep(REST_MS);
        answer = await ask();
      }
    }
    if (answer?.status === 202) {
      this.tally.accepted += 1;
      promises.made(answer.json.run_id, { n, kind: "async", hasWebhook });
      return;
    }
    this.tally.refused += 1;
    if (isCalm()) this.#breach("a submit without any fault", answer);
  }

  async #stream(): Promise<void> {
    const { service, roll, promises, turmoil } = this.#parts;
    const isCalm = turmoil.watch();
    const n = (this.#n += 1);
    const [count, leaves, isKept] = [5 + Math.floor(roll(30)), roll(3) < 1, roll(3) < 1];
    const reader = new StreamReader({
      url: `${service.appUrl}/stream`,
      token: service.token,
      body: JSON.stringify({ n, count, ms: roll(10), kb: Math.floor(roll(64)) }),
      headers: {
        ...(isKept && { "x-disconnect": "continue" }),
        ...(roll(2) < 1 && { "accept-encoding": "gzip" }),
      },
    });
    this.#readers.add(reader);
    if (leaves)
      void reader.hasMessages(3).then(
        () => reader.vanish(),
        () => {},
      );
    // One whose messages do not come closes all the same.
    await reader.ended();
    this.#readers.delete(reader);
    if (isKept && reader.head?.status === 200)
      promises.made(reader.runId, { n, kind: "kept", hasWebhook: false });
    if (reader.isWhole && reader.head?.status === 200) {
      this.tally.streams += 1;
      if (reader.messages.length !== count)
        this.breaches.push(
          `stream ${reader.runId}: whole with ${reader.messages.length} of ${count} messages`,
        );
    } else if (leaves) this.tally.left += 1;
    else if (isCalm())
      this.breaches.push(`a stream without any fault: ${reader.head?.status} ${reader.text.slice(0, 200)}`);
    reader.leave();
  }

  async #cancelOne(): Promise<void> {
    const { roll, promises, service } = this.#parts;
    const n = (this.#n += 1);
    const answer = await this.#post("run", { n, ms: roll(2_000) }, { query: "?async=true" });
    if (answer?.status !== 202) return;
    const id: string = answer.json.run_id;
    this.tally.accepted += 1;
    promises.made(id, { n, kind: "cancelled", hasWebhook: false });
    await sleep(roll(500));
    const cancelled = await this.#fetch(`${service.appUrl}/runs/${id}/cancel`, { method: "POST" });
    if (cancelled?.status === 202) this.tally.cancels += 1;
  }

  async #deploy(): Promise<void> {
    const { service, turmoil } = this.#parts;
    const isCalm = turmoil.watch();
    const { main, toml = "" } = loadedApp((this.#version += 1));
    const zip = await zipOf({ "main.py": main, "millrace.toml": toml });
    const deployed = await new DeployClient(service, "app")
      .deploy(zip)
      .catch((error: unknown) => ({ status: String(error) }));
    if (deployed.status === "success") this.tally.deploys += 1;
    else if (isCalm()) this.breaches.push(`a deploy without any fault: ${deployed.status}`);
  }

  /** Calls the app that sleeps, and waits until it is asleep again. */
  async #wake(): Promise<void> {
    const { service, turmoil } = this.#parts;
    const isCalm = turmoil.watch();
    const { projectId, baseUrl } = service;
    const n = (this.#n += 1);
    const answer = await this.#fetch(service.appUrl.replace(/app$/, "sleeper/run"), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ n }),
    });
    if (answer?.status === 200) this.tally.wakes += 1;
    else if (isCalm()) this.#breach("a call of an app asleep", answer);
    for (;;) {
      const url = `${service.baseUrl || baseUrl}/v2/projects/${projectId}/apps/${projectId}-sleeper/containers`;
      const list = await this.#fetch(url, {});
      if (list?.status === 200 && (list.json as unknown[]).length === 0) return;
      if (this.#isOver) return;
      await sleep(200);
    }
  }

  #breach(what: string, answer: Answered | null): void {
    this.breaches.push(
      `${what}: ${answer ? `${answer.status} ${JSON.stringify(answer.json)}` : "no answer"}`,
    );
  }

  async #post(functionName: string, body: object, { query = "", headers = {} }: Asked = {}) {
    return await this.#fetch(`${this.#parts.service.appUrl}/${functionName}${query}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    });
  }

  /** The answer; null when there was none. */
  async #fetch(url: string, { headers, ...init }: Request): Promise<Answered | null> {
    const open = new AbortController();
    this.#open.add(open);
    try {
      const shown = { authorization: `Bearer ${this.#parts.service.token}`, ...headers };
      const response = await fetch(url, { ...init, headers: shown, signal: open.signal });
      return { status: response.status, json: await response.json() };
    } catch {
      return null;
    } finally {
      this.#open.delete(open);
    }
  }
}
