import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { Command, scratchDirectory } from "./command-line.ts";
import { freePort } from "./free-port.ts";
import { REPOSITORY } from "./source-files.ts";
import { until } from "./until.ts";

/** Whether Prometheus is here; said aloud where it is not. */
export function hasPrometheus(): boolean {
  const found = ["prometheus", "promtool"].every((program) => spawnSync(program, ["--version"]).status === 0);
  if (!found) process.stderr.write("\nskipped: there is no prometheus, or no promtool, on the PATH\n");
  return found;
}

type Series = {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [number, string];
};

/** A real Prometheus with the rules of the package, which scrapes a service every second. */
export class Prometheus {
  readonly #url: string;

  private constructor(url: string) {
    this.#url = url;
  }

  static async open(target: string): Promise<Prometheus> {
    const directory = scratchDirectory();
    const port = await freePort();
    const config = {
      global: { scrape_interval: "1s", evaluation_interval: "1s" },
      rule_files: [path.join(REPOSITORY, "packaging/prometheus/alerts.yaml")],
      scrape_configs: [{ job_name: "millrace", static_configs: [{ targets: [target] }] }],
    };
    const file = path.join(directory, "prometheus.yml");
    writeFileSync(file, JSON.stringify(config));
    const prometheus = new Command("prometheus", [
      `--config.file=${file}`,
      `--storage.tsdb.path=${path.join(directory, "data")}`,
      `--web.listen-address=127.0.0.1:${port}`,
      "--enable-feature=exemplar-storage",
    ]);
    await prometheus.printed(/Server is ready to receive web requests/);
    return new Prometheus(`http://127.0.0.1:${port}/api/v1`);
  }

  /** What an expression gives now. */
  async query(expr: string): Promise<readonly Series[]> {
    const { result } = await this.ask<{ result: readonly Series[] }>(
      `/query?query=${encodeURIComponent(expr)}`,
    );
    return result;
  }

  async ask<Data>(place: string): Promise<Data> {
    const response = await fetch(`${this.#url}${place}`);
    const { status, data, error } = (await response.json()) as { status: string; data: Data; error?: string };
    if (status !== "success") throw new Error(`${place}: ${error}`);
    return data;
  }

  /** Waits until it has scraped its target so many times; throws if it cannot read what it gets. */
  async scraped(times: number): Promise<void> {
    await until(`${times} scrapes`, async () => {
      type Targets = { activeTargets: readonly { lastError: string; health: string }[] };
      const { activeTargets } = await this.ask<Targets>("/targets");
      const errors = activeTargets.map(({ lastError }) => lastError).filter((error) => error !== "");
      if (errors.length > 0) throw new Error(errors.join("; "));
      const [count] = await this.query("count_over_time(up[1h])");
      return Number(count?.value[1] ?? 0) >= times;
    });
  }
}
