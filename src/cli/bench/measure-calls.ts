import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import { ConnectionError } from "../api/http.ts";
import { Agent, request } from "../../kit/node-http.ts";

export type BenchCall = { readonly url: string; readonly token: string; readonly body: string };

/** What a number of connections achieved in a given time. */
export type CallFigures = {
  readonly connections: number;
  readonly seconds: number;
  readonly calls: number;
  /** Of them, with another status than 200. */
  readonly failures: number;
  readonly calls_per_second: number;
  readonly p50_ms: number;
  readonly p99_ms: number;
  /** Of one core, by this client: near 1 it is the client that is measured. */
  readonly client_cpu: number;
};

/** Calls a function over kept connections, one call in flight on each, and measures from the write to the last byte. */
export async function measureCalls(
  call: BenchCall,
  connections: number,
  seconds: number,
  signal: AbortSignal,
): Promise<CallFigures> {
  const isTls = call.url.startsWith("https:");
  const agent = new (isTls ? TlsAgent : Agent)({ keepAlive: true, maxSockets: connections });
  const latencies: number[] = [];
  let failures = 0;
  const [startedAt, cpuBefore] = [performance.now(), process.cpuUsage()];
  const until = startedAt + seconds * 1000;
  const work = async (): Promise<void> => {
    while (performance.now() < until) {
      const sentAt = performance.now();
      if ((await callOnce(call, isTls, agent, signal)) !== 200) failures += 1;
      latencies.push(performance.now() - sentAt);
    }
  };
  try {
    await Promise.all(Array.from({ length: connections }, work));
  } finally {
    agent.destroy();
  }
  const took = (performance.now() - startedAt) / 1000;
  const { user, system } = process.cpuUsage(cpuBefore);
  const sorted = Float64Array.from(latencies).toSorted();
  return {
    connections,
    seconds: rounded(took, 2),
    calls: sorted.length,
    failures,
    calls_per_second: Math.round(sorted.length / took),
    p50_ms: rounded(quantile(sorted, 0.5), 3),
    p99_ms: rounded(quantile(sorted, 0.99), 3),
    client_cpu: rounded((user + system) / 1e6 / took, 2),
  };
}

/** The smallest value that at least this share (0 to 1) of the sorted values does not exceed; 0 when there is none. */
function quantile(sorted: Float64Array, share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
}

async function callOnce(
  { url, token, body }: BenchCall,
  isTls: boolean,
  agent: Agent,
  signal: AbortSignal,
): Promise<number> {
  return await new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      "content-length": Buffer.byteLength(body),
    };
    const sent = (isTls ? tlsRequest : request)(url, { method: "POST", agent, headers, signal }, (answer) => {
      answer.resume();
      answer.on("end", () => resolve(answer.statusCode ?? 0));
      answer.on("error", reject);
    });
    sent.on("error", (error) => reject(signal.aborted ? error : new ConnectionError(url, error.message)));
    sent.end(body);
  });
}

function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
