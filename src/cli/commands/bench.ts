import type { Command } from "commander";
import { explainError } from "../api/explain.ts";
import { textOf } from "../api/http.ts";
import { explainCall } from "../api/server-path.ts";
import { measureCalls } from "../bench/measure-calls.ts";
import type { CallFigures } from "../bench/measure-calls.ts";
import { EXIT, usage } from "../failure.ts";
import { examples, remote } from "../options.ts";
import { duration } from "../output/amounts.ts";
import { Progress } from "../output/progress.ts";
import { withService } from "../task.ts";
import type { RemoteFlags, Task } from "../task.ts";

type BenchFlags = RemoteFlags & {
  readonly app: string;
  readonly data: string;
  readonly seconds: string;
  readonly connections: string;
};

const MAX_SECONDS = 600;
const MAX_CONNECTIONS = 1_000;
/** From this share of a core on, the client may be what holds the figures down. */
const BUSY_CLIENT = 0.85;

/** `millrace bench` */
export function defineBench(command: Command): void {
  remote(command)
    .argument(
      "[words...]",
      "in a clone: sync, cold, stream, async, deploy or walls, then its own options after --",
    )
    .option("--app <app>", "the app to call; its function run is used", "hello")
    .option("--data <json>", "arguments as a JSON object", "{}")
    .option("--seconds <count>", "how many seconds to measure", "5")
    .option("--connections <count>", "how many calls to make at a time", "16");
  examples(command, "millrace bench", "millrace bench --app hello --seconds 10 --connections 64").action(
    async (words: readonly string[], flags: BenchFlags, self: Command) => {
      if (words.length === 0) return await withService(bench)(flags, self);
      const { runRepositoryBench } = await import("../bench/repository-bench.ts");
      process.exitCode = await runRepositoryBench(words, flags.json === true);
    },
  );
}

async function bench({ api, flags, out, signal }: Task<BenchFlags>): Promise<void> {
  const seconds = readCount("--seconds", flags.seconds, MAX_SECONDS);
  const connections = readCount("--connections", flags.connections, MAX_CONNECTIONS);
  const url = await api.appUrl(flags.app, "run");
  // Starts a replica, and says what is wrong before the clock runs.
  const first = await api.open("POST", url, { body: flags.data });
  const text = await textOf(first);
  if (first.status !== 200) throw explainCall(api, { app: flags.app, functionName: "run" }, first, text);
  const call = { url, token: api.site.token ?? "", body: flags.data };
  const progress = new Progress(`calling ${flags.app}/run for ${seconds} s`, out.isJson);
  let figures: CallFigures;
  try {
    figures = await measureCalls(call, connections, seconds, signal);
  } catch (error) {
    throw explainError(error);
  } finally {
    progress.end();
  }
  out.show({ app: flags.app, url, ...figures }, () => figuresText(url, figures));
  if (figures.failures > 0) process.exitCode = EXIT.failure;
}

function readCount(option: string, text: string, max: number): number {
  const count = Number(text);
  if (/^\d+$/.test(text) && count >= 1 && count <= max) return count;
  throw usage(`${option} takes a whole number from 1 to ${max}, not ${JSON.stringify(text)}`);
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
