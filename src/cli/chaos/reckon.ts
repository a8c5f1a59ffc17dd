import { setTimeout as sleep } from "node:timers/promises";
import { send, textOf } from "../api/http.ts";
import { readEnvelope } from "../output/run-envelope.ts";
import { LEDGER_APP, resultOf } from "./ledger.ts";
import type { Ledger } from "./ledger.ts";
import type { SyncCalls } from "./load.ts";
import type { Address } from "./scratch-service.ts";

/** How an accepted run stands: it ended with its result, it ended otherwise or is unknown, or it has not ended. */
export type Fate = "finished" | "lost" | "stuck";

/** What the kills cost. */
export type Verdict = {
  /** Async runs that got their 202. */
  readonly accepted: number;
  readonly finished: number;
  readonly lost: number;
  /** Executed more than once. */
  readonly duplicated: number;
  readonly stuck: number;
  readonly seconds: number;
  readonly sync_calls: SyncCalls;
};

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
  const ask = async (): Promise<void> => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const [id, n] = next;
      fates.set(id, await fateOf(address, id, resultOf(n), deadline, signal));
    }
  };
  await Promise.all(Array.from({ length: ASKERS }, ask));
  return fates;
}

async function fateOf(
  { apiUrl, projectId, token }: Address,
  id: string,
  expected: number,
  deadline: number,
  signal: AbortSignal,
): Promise<Fate> {
  const url = `${apiUrl}/v4/${projectId}/${LEDGER_APP.name}/runs/${id}/result`;
  const headers = { authorization: `Bearer ${token}`, prefer: "wait=1" };
  do {
    const answer = await send(url, { headers, signal }).catch(() => null);
    const text = answer ? await textOf(answer).catch(() => null) : null;
    signal.throwIfAborted();
    if (answer && text !== null && answer.status !== 202) {
      const isRight = answer.status === 200 && Number(readEnvelope(text)?.result) === expected;
      return isRight ? "finished" : "lost";
    }
    await sleep(AGAIN_MS, undefined, { signal });
  } while (performance.now() < deadline);
  return "stuck";
}

/** Puts together what the callers were promised, what the service says and what the app itself wrote down. */
export function reckon(
  fates: ReadonlyMap<string, Fate>,
  ledger: Ledger,
  calls: SyncCalls,
  seconds: number,
): Verdict {
  const count = (wanted: Fate): number => [...fates.values()].filter((fate) => fate === wanted).length;
  // One that the service calls a success and the app never finished was not executed.
  const unreal = [...fates].filter(([id, fate]) => fate === "finished" && !ledger.ended.has(id)).length;
  return {
    accepted: fates.size,
    finished: count("finished") - unreal,
    lost: count("lost") + unreal + calls.wrong,
    duplicated: ledger.repeated,
    stuck: count("stuck") + calls.stuck,
    seconds: Math.round(seconds * 10) / 10,
    sync_calls: calls,
  };
}
