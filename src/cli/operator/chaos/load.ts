import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ACCEPTED_RUN } from "../../../shapes/runs.ts";
import { checked } from "../../../shapes/shape.ts";
import type { Address } from "../../client/api.ts";
import { postJson, send, textOf } from "../../client/http.ts";
import { readEnvelope } from "../../client/print-answer.ts";

/** The app under load: it writes every execution into a file, one line at its beginning and one at its end. */
export const LEDGER_APP = {
  name: "ledger",
  main: `import os
import time

LEDGER = os.path.join(os.environ["PERSISTENT_STORAGE"], "ledger")


def note(word, run_id):
    # A short line in one write to a file opened for appending is never torn.
    ledger = os.open(LEDGER, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(ledger, f"{word} {run_id} {os.getpid()}\\n".encode())
    os.close(ledger)


def run(n: int, run_id: str, ms: float = 0):
    note("begin", run_id)
    time.sleep(ms / 1000)
    note("end", run_id)
    return 2 * n + 1
`,
  toml: `[deployment]
name = "ledger"

[scaling]
max_replicas = 2
max_attempts = 3
`,
} as const;

/** The result of the app's `run`. */
export function resultOf(n: number): number {
  return 2 * n + 1;
}

/** The runs in the app's file. */
export class Ledger {
  readonly begins = new Map<string, number>();
  readonly ended = new Set<string>();
  /** The process that executed each run, the latest if there were several. */
  readonly pids = new Map<string, number>();

  constructor(text: string) {
    for (const line of text.split("\n")) {
      const [word, id = "", pid] = line.split(" ");
      if (word === "begin") {
        this.begins.set(id, (this.begins.get(id) ?? 0) + 1);
        this.pids.set(id, Number(pid));
      }
      if (word === "end") this.ended.add(id);
    }
  }

  /** Reads what the app of a project has written in a data directory up to now. */
  static read(dataDir: string, projectId: string): Ledger {
    const file = path.join(dataDir, "storage", projectId, "ledger");
    return new Ledger(existsSync(file) ? readFileSync(file, "utf8") : "");
  }

  get repeated(): number {
    return [...this.begins.values()].filter((count) => count > 1).length;
  }
}

/** How many sync calls ended in each way. */
type SyncCalls = {
  answered: number;
  /** With an error status. */
  failed: number;
  /** Lost their connection. */
  cut: number;
  /** With a result that is not the function's. */
  wrong: number;
  stuck: number;
};

const ASYNC_CLIENTS = 3;
const SYNC_CLIENTS = 3;
const MAX_RUN_MS = 30;
/** A client's pause between calls: on a small machine the backlog must not outgrow the waiting at the end. */
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
  readonly #clients: readonly Promise<void>[];

  constructor(address: Address) {
    this.address = address;
    const client = async (call: (ms: number) => Promise<unknown>): Promise<void> => {
      while (!this.#isOver) {
        if (this.address) await call(Math.random() * MAX_RUN_MS);
        await sleep(REST_MS);
      }
    };
    this.#clients = [
      ...Array.from({ length: ASYNC_CLIENTS }, () => client((ms) => this.submit(ms))),
      ...Array.from({ length: SYNC_CLIENTS }, () => client((ms) => this.#call(ms))),
    ];
  }

  /** Submits one async run; resolves with its id, or null if no 202 came. */
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
    await Promise.all(this.#clients);
  }

  async #call(ms: number): Promise<void> {
    const n = (this.#last += 1);
    const startedAt = performance.now();
    try {
      const { status, text } = await this.#post("run", { n, ms });
      if (status !== 200) this.calls.failed += 1;
      else this.calls[isResult(text, n) ? "answered" : "wrong"] += 1;
    } catch {
      this.calls[performance.now() - startedAt < ANSWER_MS ? "cut" : "stuck"] += 1;
    }
  }

  async #post(what: string, body: object): Promise<{ status: number; text: string }> {
    if (!this.address) throw new Error("the service is down");
    const signal = AbortSignal.timeout(ANSWER_MS);
    return await postJson(urlOf(this.address, what), body, signal, this.address.token);
  }
}

function urlOf({ apiUrl, projectId }: Address, rest: string): string {
  return `${apiUrl}/v4/${projectId}/${LEDGER_APP.name}/${rest}`;
}

function isResult(text: string, n: number): boolean {
  return Number(readEnvelope(text)?.result) === resultOf(n);
}

/** The state of an accepted run: it ended with its result, it ended otherwise or is unknown, or it has not ended. */
export type Fate = "finished" | "lost" | "stuck";

const ASKERS = 8;
const AGAIN_MS = 100;

/** Asks for each accepted run until it has ended or the deadline, a time of `performance.now()`, has passed. */
export async function awaitFates(
  address: Address,
  accepted: ReadonlyMap<string, number>,
  deadline: number,
  signal: AbortSignal,
): Promise<Map<string, Fate>> {
  const fates = new Map<string, Fate>();
  const waiting = [...accepted];
  const headers = { authorization: `Bearer ${address.token}`, prefer: "wait=1" };
  const fateOf = async (id: string, n: number): Promise<Fate> => {
    do {
      const answer = await send(urlOf(address, `runs/${id}/result`), { headers, signal }).catch(() => null);
      const text = answer ? await textOf(answer).catch(() => null) : null;
      signal.throwIfAborted();
      if (answer && text !== null && answer.status !== 202)
        return answer.status === 200 && isResult(text, n) ? "finished" : "lost";
      await sleep(AGAIN_MS, undefined, { signal });
    } while (performance.now() < deadline);
    return "stuck";
  };
  const ask = async (): Promise<void> => {
    for (let next = waiting.shift(); next; next = waiting.shift()) fates.set(next[0], await fateOf(...next));
  };
  await Promise.all(Array.from({ length: ASKERS }, ask));
  return fates;
}

/** The cost of the kills, as `--json` prints it. */
export type Toll = ReturnType<typeof reckon>;

/** Combines what the callers were promised, what the service says and what the app itself wrote down. */
export function reckon(fates: ReadonlyMap<string, Fate>, ledger: Ledger, calls: SyncCalls, seconds: number) {
  const count = (wanted: Fate): number => [...fates.values()].filter((fate) => fate === wanted).length;
  // A run that the service calls a success and the app never finished was not executed.
  const unreal = [...fates].filter(([id, fate]) => fate === "finished" && !ledger.ended.has(id)).length;
  return {
    /** Async runs that got their 202. */
    accepted: fates.size,
    finished: count("finished") - unreal,
    lost: count("lost") + unreal + calls.wrong,
    duplicated: ledger.repeated,
    stuck: count("stuck") + calls.stuck,
    seconds: Math.round(seconds * 10) / 10,
    sync_calls: calls,
  };
}
