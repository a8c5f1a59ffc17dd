import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { Agent as TlsAgent } from "node:https";
import path from "node:path";
import { finished } from "node:stream/promises";
import type { Command } from "commander";
import { PACKAGE_DIR } from "../../config/package-files.ts";
import { Agent } from "../../kit/node-http.ts";
import { EXIT, usage } from "../failure.ts";
import type { Definitions } from "../options.ts";
import { duration } from "../output.ts";
import { withProgress } from "../terminal.ts";
import { explainCall } from "./explain.ts";
import { send, textOf } from "./http.ts";
import { asks, count, type Numbers, type RemoteFlags, type Task, type Texts, withService } from "./task.ts";

type BenchFlags = RemoteFlags & Required<Texts<"app" | "data"> & Numbers<"seconds" | "connections">>;

/** From this share of a core on, the client may be what holds the figures down. */
const BUSY_CLIENT = 0.85;

export const COMMANDS: Definitions = {
  bench(command) {
    asks(command, bench, "millrace bench", "millrace bench --app hello --seconds 10 --connections 64")
      .argument(
        "[words...]",
        "in a clone: sync, cold, stream, async, deploy or walls, then its own options after --",
      )
      .option("--app <app>", "the app to call; its function run is used", "hello")
      .option("--data <json>", "arguments as a JSON object", "{}")
      .option("--seconds <count>", "how many seconds to measure", count("--seconds", 1, 600), 5)
      .option(
        "--connections <count>",
        "how many calls to make at a time",
        count("--connections", 1, 1_000),
        16,
      )
      .action(async (words: readonly string[], flags: BenchFlags, self: Command) => {
        if (words.length === 0) return await withService(bench)(flags, self);
        process.exitCode = await runRepositoryBench(words, flags.json === true);
      });
  },
};

async function bench({ api, flags, out, signal }: Task<BenchFlags>): Promise<void> {
  const { seconds, connections } = flags;
  const url = await api.appUrl(flags.app, "run");
  // Starts a replica, and reports errors before the clock runs.
  const first = await api.open("POST", url, { body: flags.data });
  const text = await textOf(first);
  if (first.status !== 200) throw explainCall(api.site, { app: flags.app, functionName: "run" }, first, text);
  const call = { url, token: api.site.token ?? "", body: flags.data };
  const figures = await withProgress(`calling ${flags.app}/run for ${seconds} s`, out.isJson, () =>
    measureCalls(call, connections, seconds, signal),
  );
  out.show({ app: flags.app, url, ...figures }, () => figuresText(url, figures));
  if (figures.failures > 0) process.exitCode = EXIT.failure;
}

function figuresText(url: string, figures: CallFigures): string {
  const { calls, failures, calls_per_second: rate, seconds, connections } = figures;
  const share = Math.round(figures.client_cpu * 100);
  const isClient = figures.client_cpu >= BUSY_CLIENT;
  return [
    url,
    `calls/s     ${rate}   ${calls} calls in ${seconds} s over ${connections} connections`,
    `p50         ${duration(figures.p50_ms)}`,
    `p99         ${duration(figures.p99_ms)}`,
    `failures    ${failures}`,
    `client CPU  ${share} % of a core${isClient ? ": the client is the bottleneck, the service could do more" : ""}`,
    "",
  ].join("\n");
}

type CallFigures = Awaited<ReturnType<typeof measureCalls>>;

/** Calls a function over kept connections, one call in flight on each, and measures from the write to the last byte. */
async function measureCalls(
  { url, token, body }: Readonly<Record<"url" | "token" | "body", string>>,
  connections: number,
  seconds: number,
  signal: AbortSignal,
) {
  const agent = new (url.startsWith("https:") ? TlsAgent : Agent)({
    keepAlive: true,
    maxSockets: connections,
  });
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const latencies: number[] = [];
  let failures = 0;
  const [startedAt, cpuBefore] = [performance.now(), process.cpuUsage()];
  const until = startedAt + seconds * 1000;
  const work = async (): Promise<void> => {
    while (performance.now() < until) {
      const sentAt = performance.now();
      const answer = await send(url, { method: "POST", headers, body, agent, signal });
      await finished(answer.body.resume());
      if (answer.status !== 200) failures += 1;
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
    /** Of them, with another status than 200. */
    failures,
    calls_per_second: Math.round(sorted.length / took),
    p50_ms: rounded(quantile(sorted, 0.5), 3),
    p99_ms: rounded(quantile(sorted, 0.99), 3),
    /** Of one core, by this client: near 1 it is the client that is measured. */
    client_cpu: rounded((user + system) / 1e6 / took, 2),
  };
}

/** The smallest value that at least this share (0 to 1) of the sorted values does not exceed; 0 when there is none. */
function quantile(sorted: Float64Array, share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
}

function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}

const BENCH = path.join(PACKAGE_DIR, "bench", "bench.ts");

async function runRepositoryBench(words: readonly string[], isJson: boolean): Promise<number> {
  if (!existsSync(BENCH)) {
    throw usage(
      `the bench ${JSON.stringify(words[0])} only works in a clone of the repository`,
      "millrace bench without an argument measures the running service",
    );
  }
  const args = [...process.execArgv, BENCH, ...words, ...(isJson ? ["--json"] : [])];
  const child = spawn(process.execPath, args, { stdio: "inherit" });
  // Ctrl-C reaches it as well; it clears up, and we wait for that.
  const ignore = (): void => {};
  process.on("SIGINT", ignore);
  const forward = (): boolean => child.kill("SIGTERM");
  process.on("SIGTERM", forward);
  try {
    return await new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code) => resolve(code ?? 1));
    });
  } finally {
    process.off("SIGINT", ignore);
    process.off("SIGTERM", forward);
  }
}
