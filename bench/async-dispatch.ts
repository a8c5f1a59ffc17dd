import { Agent, type IncomingMessage, request } from "node:http";
import type { Target } from "./load-client.ts";
import type { Running } from "./subject.ts";
import { medianBy } from "./targets.ts";

/** From two moments outside the service to the function's first line; the commit lies between them. */
export type DispatchResult = {
  readonly runs: number;
  /** Since the request was written: more than the delay, for the commit is in it. */
  readonly sinceRequest: Delay;
  /** Since the 202 was read: less than the delay by the way of the 202, and below zero where that was longer. */
  readonly sinceAccepted: Delay;
};

export type Delay = { readonly p50Us: number; readonly p99Us: number };

/** From the request and from the 202 to the function, and from the request to the result. */
export type Sample = { readonly requestUs: number; readonly acceptedUs: number; readonly endedUs: number };

const ANSWER_MS = 30_000;

/**
 * Submits runs one at a time to a function that returns when it began, each after the end of the one before.
 * Python's and Node's monotonic clocks are one on Linux.
 */
export async function measureDispatch(target: Running, runs: number): Promise<DispatchResult> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  try {
    const samples: Sample[] = [];
    for (let run = 0; run < runs; run++) samples.push(await submitAndFollow(target, agent));
    return {
      runs,
      sinceRequest: delayOf(samples.map(({ requestUs }) => requestUs)),
      sinceAccepted: delayOf(samples.map(({ acceptedUs }) => acceptedUs)),
    };
  } finally {
    agent.destroy();
  }
}

/** Submits one run to a function that returns when it began, and waits for its result; one that is late began then. */
export async function submitAndFollow(
  { url, headers, body }: Target,
  agent: Agent,
  waitMs = ANSWER_MS,
): Promise<Sample> {
  const sentUs = nowUs();
  const accepted = await call(url, { method: "POST", headers, agent, body });
  const acceptedUs = nowUs();
  if (accepted.status !== 202) throw new Error(`status ${accepted.status} from ${url}: ${accepted.text}`);
  const wait = { ...headers, Prefer: `wait=${waitMs / 1000}` };
  const answer = await call(`${accepted.location}/result`, { method: "GET", headers: wait, agent, waitMs });
  const endedUs = nowUs();
  // 202: it has not ended.
  if (answer.status !== 200 && answer.status !== 202)
    throw new Error(`status ${answer.status} of a result: ${answer.text}`);
  const beganUs =
    answer.status === 202 ? endedUs : (JSON.parse(answer.text) as { result: number }).result * 1e6;
  return { requestUs: beganUs - sentUs, acceptedUs: beganUs - acceptedUs, endedUs: endedUs - sentUs };
}

type Question = {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly agent: Agent;
  readonly body?: string | undefined;
  readonly waitMs?: number;
};
type Answer = { readonly status: number; readonly location: string; readonly text: string };

async function call(url: string, { method, headers, agent, body, waitMs = 0 }: Question): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const typed = body === undefined ? headers : { ...headers, "Content-Type": "application/json" };
  request(url, { method, headers: typed, agent, signal: AbortSignal.timeout(ANSWER_MS + waitMs) })
    .on("response", resolve)
    .on("error", reject)
    .end(body);
  const response = await promise;
  const text = (await response.toArray()).join("");
  return { status: response.statusCode ?? 0, location: response.headers.location ?? "", text };
}

function nowUs(): number {
  return Number(process.hrtime.bigint()) / 1000;
}

function delayOf(delaysUs: readonly number[]): Delay {
  const sorted = delaysUs.toSorted((a, b) => a - b);
  const p99 = sorted[Math.max(0, Math.ceil(sorted.length * 0.99) - 1)];
  return { p50Us: medianBy(sorted, (us) => us) ?? 0, p99Us: p99 ?? 0 };
}
