import { readAppConfig } from "../../src/config/app-config.ts";
import {
  type AppFigures,
  figuresOf,
  type Known,
  type OpenApp,
} from "../../src/management/metrics/app-figures.ts";
import { type Scrape, written } from "../../src/management/metrics/scrape.ts";
import { type Form, Page } from "../../src/management/metrics/page.ts";
import { newFleetCounts } from "../../src/replicas/fleet-events.ts";
import { RunTally } from "../../src/runs/run-tally.ts";

const { config } = readAppConfig({ host: { cpuCount: 2 } });
const { config: batching } = readAppConfig({
  host: { cpuCount: 2 },
  toml: { text: "[batching.run]\n", fileName: "millrace.toml" },
});

/** Apps that were deployed and never called, as the catalogue has them; a thousand real ones take minutes. */
export function idleApps(
  count: number,
  functions: readonly string[] = ["run"],
  firstNumber = 1,
  isBatched = false,
): OpenApp[] {
  return Array.from({ length: count }, (_, i) => {
    const number = firstNumber + i;
    const live = {
      app: { number, projectId: "p-12345678", name: `app-${number}` },
      version: {
        config: isBatched ? batching : config,
        functions: functions.map((name) => ({ name, parameters: [] })),
      },
      pool: {
        functions: null,
        replicas: new Set(),
        slots: { waiting: 0, oldestWaitMs: 0 },
        counts: newFleetCounts(),
      },
    } as unknown as OpenApp["live"];
    return { live, versions: [live] };
  });
}

export function figures(apps: readonly OpenApp[], tally = new RunTally()) {
  const known: Known = { tally, queued: new Map(), usageOf: () => null, gpusOf: () => null };
  return figuresOf(apps, known);
}

export function scrapeOf(apps: readonly AppFigures[]): Scrape {
  return { apps, now: 0, writeOther: () => undefined };
}

/** The pieces of a scrape that has these apps and nothing else. */
export async function scraped(apps: readonly AppFigures[], form: Form = "openmetrics"): Promise<string[]> {
  const pieces: string[] = [];
  for await (const piece of written(new Page(form), scrapeOf(apps))) pieces.push(piece);
  return pieces;
}
