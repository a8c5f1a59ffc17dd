import { readFileSync, readdirSync } from "node:fs";
import { Agent, request } from "node:http";
import path from "node:path";
import { expect } from "vitest";
import { readSettings } from "../../src/config/settings.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import { scratchDirectory, serve } from "../support/command-line.ts";
import { writeApp } from "../support/service.ts";
import { verifies } from "../verifies.ts";

const APPS = Number(process.env["MILLRACE_SCALE_APPS"] ?? 1_000);
/** Of one slice, one after the other: calls at once would share work, now more and now less. */
const CALLS = 250;
const WARM_UP_CALLS = 3_000;
const SLICES = 60;
const MAX_RATIO = 1.05;
const MAIN = { main: "def run(n):\n    return n\n" };

/** A service of its own process with so many apps; the middle one is called. */
class Site {
  readonly pid: number;
  readonly #url: string;
  readonly #token: string;
  readonly #agent = new Agent({ keepAlive: true });

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
    for (let call = 0; call < calls; call++) await this.#call(query);
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

/** A low quantile: what a slice costs when nothing else on the machine gets in its way. */
function usual(costs: readonly number[]): number {
  return costs.toSorted((a, b) => a - b)[Math.floor(costs.length / 5)]!;
}

verifies("show.scale.apps", `calls cost the same beside ${APPS} apps as alone`, async () => {
  const [one, many] = [await Site.open(1), await Site.open(APPS)];
  for (const query of ["", "?async=true"]) {
    const costs: Record<"alone" | "beside", number[]> = { alone: [], beside: [] };
    for (const site of [one, many]) await site.costOf(query, WARM_UP_CALLS);
    // In short turns: the machine is not the same all the time.
    for (let slice = 0; slice < SLICES; slice++) {
      costs.alone.push(await one.costOf(query));
      costs.beside.push(await many.costOf(query));
    }
    const [alone, beside] = [usual(costs.alone), usual(costs.beside)];
    const ratio = beside / alone;
    console.log(
      `${query || "sync"}: ${alone.toFixed(1)} µs alone, ${beside.toFixed(1)} µs beside ${APPS} apps, ` +
        `ratio ${ratio.toFixed(3)}`,
    );
    expect(ratio).toBeLessThan(MAX_RATIO);
  }
});
