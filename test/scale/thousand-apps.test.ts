import { readFileSync, readdirSync } from "node:fs";
import { Agent, request } from "node:http";
import path from "node:path";
import { expect } from "vitest";
import { readSettings } from "../../src/config/settings.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import { scratchDirectory, serve } from "../support/command-line.ts";
import { until, writeApp } from "../support/service.ts";
import { verifies } from "../verifies.ts";

const APPS = Number(process.env["MILLRACE_SCALE_APPS"] ?? 1_000);
const CALLS = 4_000;
const CLIENTS = 8;
const ROUNDS = 12;
const MAX_RATIO = 1.05;
const MAIN = { main: "def run(n):\n    return n\n" };

/** A service of its own process with so many apps; the middle one is called. */
class Site {
  readonly pid: number;
  readonly #url: string;
  readonly #token: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });

  private constructor(pid: number, url: string, token: string) {
    this.pid = pid;
    this.#url = url;
    this.#token = token;
  }

  static async open(apps: number): Promise<Site> {
    const directory = scratchDirectory();
    const dataDir = path.join(directory, "data");
    const { settings } = readSettings({ flags: { dataDir, apiPort: 0, basePort: 0 }, env: {} });
    const service = await startService(settings, { log: createLog("silent") });
    for (let i = 0; i < apps; i++) {
      await service.install(await writeApp(path.join(directory, "sources", String(i)), `app-${i}`, MAIN));
    }
    const { projectId, token } = service.owner;
    await service.stop();
    const { command, apiUrl } = await serve(dataDir);
    const name = `app-${Math.floor(apps / 2)}`;
    return new Site(command.pid, `${apiUrl}/v4/${projectId}/${name}/run`, token);
  }

  /** CPU time of the service in nanoseconds, all its threads, without its replicas. */
  cpuNs(): number {
    const tasks = `/proc/${this.pid}/task`;
    const spent = (task: string) => Number(readFileSync(`${tasks}/${task}/schedstat`, "utf8").split(" ")[0]);
    return readdirSync(tasks).reduce((sum, task) => sum + spent(task), 0);
  }

  /** Microseconds of CPU time for each of many calls. */
  async costOf(query: string, calls = CALLS): Promise<number> {
    const before = this.cpuNs();
    let left = calls;
    const client = async (): Promise<void> => {
      while (left-- > 0) await this.#call(query);
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
    return (this.cpuNs() - before) / calls / 1000;
  }

  async #call(query: string): Promise<void> {
    const headers = { authorization: `Bearer ${this.#token}`, "content-type": "application/json" };
    const status = await new Promise((resolve, reject) => {
      const asked = request(
        this.#url + query,
        { method: "POST", headers, agent: this.#agent },
        (response) => {
          response.resume().once("end", () => resolve(response.statusCode));
        },
      );
      asked.once("error", reject).end('{"n":1}');
    });
    expect(status).toBe(query === "" ? 200 : 202);
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

for (const [mode, query] of [
  ["sync", ""],
  ["async", "?async=true"],
] as const) {
  verifies("show.scale.apps", `${mode} calls cost the same beside ${APPS} apps as alone`, async () => {
    const [one, many] = [await Site.open(1), await Site.open(APPS)];
    for (const site of [one, many]) await site.costOf(query, CALLS * 2);
    // In turns, and each round compared with the one beside it: the machine is not the same all the time.
    const ratios: number[] = [];
    const costs: [number, number][] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const isFirst = round % 2 === 0;
      const first = await (isFirst ? one : many).costOf(query);
      const second = await (isFirst ? many : one).costOf(query);
      const [alone, beside] = isFirst ? [first, second] : [second, first];
      costs.push([alone, beside]);
      ratios.push(beside / alone);
    }
    const [alone, beside] = [median(costs.map(([cost]) => cost)), median(costs.map(([, cost]) => cost))];
    console.log(
      `${mode}: ${alone.toFixed(1)} µs alone, ${beside.toFixed(1)} µs beside ${APPS} apps, ` +
        `ratio ${median(ratios).toFixed(3)} (${ratios.map((ratio) => ratio.toFixed(2)).join(" ")})`,
    );
    expect(median(ratios)).toBeLessThan(MAX_RATIO);
    await until("both still live", () => [one, many].every(({ pid }) => process.kill(pid, 0)));
  });
}
