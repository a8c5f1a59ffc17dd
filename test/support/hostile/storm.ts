import path from "node:path";
import { fileURLToPath } from "node:url";
import { Condition } from "../../../src/kit/concurrency.ts";
import { Command, scratchDirectory, serviceEnvironment } from "../command-line.ts";
import { explains } from "../explain.ts";
import { writeApp } from "../service.ts";
import { until } from "../until.ts";
import { Callers } from "./callers.ts";
import type { ServiceWord } from "./words.ts";

const SERVICE = fileURLToPath(new URL("./service.ts", import.meta.url));
const NEIGHBOUR = "def run(n):\n    return n + 1\n";
/** Memory is measured after a collection, and so that none is held for the next one. */
const FLAGS = ["--expose-gc", "--max-semi-space-size=4"];
const APPS = 24;
const CALLERS_PER_APP = 3;

export type StormOptions = {
  readonly cases: number;
  readonly seed: number;
  /** The first plan: to play one again. */
  readonly from?: number;
};

/** What came of it. */
export type Storm = {
  readonly cases: number;
  readonly answers: Callers["answers"];
  readonly neighbour: { readonly calls: number; readonly wrong: readonly string[] };
  /** Of the service, when the neighbour was first answered, and at its most. */
  readonly startBytes: number;
  readonly mostBytes: number;
  /** Errors that the service met in itself. */
  readonly errors: readonly string[];
  /** Requests that were left without an answer. */
  readonly unanswered: number;
  /** How often processes were ended for each kind of fault. */
  readonly faults: Readonly<Record<string, number>>;
  readonly exit: number | string;
};

/** Has hostile processes played against a service in a process of its own, with callers on every side. */
export async function hostileStorm({ cases, seed, from = 0 }: StormOptions): Promise<Storm> {
  const directory = scratchDirectory();
  const env = {
    ...serviceEnvironment(path.join(directory, "data")),
    HOSTILE_SEED: String(seed),
    HOSTILE_FROM: String(from),
  };
  const command = new Command(process.execPath, [...FLAGS, SERVICE, ...(await writeApps(directory))], {
    env,
  });
  const words = new Words(command);
  const silence = explains(() => `hostile plans ${from} to ${words.plans} of seed ${seed}`);
  await until("the service is up", () => words.up !== null || words.isOver, words.news);
  if (!words.up) throw new Error(`the service did not start: ${command.stderr}`);
  const callers = new Callers(words.up, seed);
  await callers.neighbour();
  await until("it has told of its memory", () => words.hasReported, words.news);
  words.remember();
  const isDone = (): boolean => words.cases >= cases || words.isOver;
  const attacks = Array.from({ length: APPS * CALLERS_PER_APP }, async (_, i) => {
    while (!isDone()) await callers.attack(`hostile-${i % APPS}`);
  });
  while (!isDone()) await callers.neighbour();
  await Promise.all(attacks);
  await callers.neighbour();
  command.child.kill("SIGTERM");
  const exit = await command.exited;
  callers.close();
  silence();
  const { startBytes, mostBytes, unanswered, faults } = words;
  return {
    cases: words.cases,
    answers: callers.answers,
    neighbour: { calls: callers.neighbourCalls, wrong: callers.wrong },
    startBytes,
    mostBytes,
    errors: command.stderr.split("\n").filter((line) => line !== ""),
    unanswered,
    faults,
    exit,
  };
}

async function writeApps(directory: string): Promise<string[]> {
  // By a clock that runs fast.
  const toml = "[scaling]\nmin_replicas = 1\nresponse_grace_period = 43200\n";
  const folders = [await writeApp(path.join(directory, "good"), "good", { main: NEIGHBOUR, toml })];
  for (let i = 0; i < APPS; i++) {
    const name = `hostile-${i}`;
    folders.push(await writeApp(path.join(directory, name), name, { main: "", toml: configOf(i) }));
  }
  return folders;
}

/** Some fork, some take several calls at once. Small limits, so that what goes beyond them shows. */
function configOf(i: number): string {
  return `
[deployment]
fork = "${i % 2 === 0 ? "auto" : "never"}"
deployment_initialization_timeout = 100
[scaling]
max_replicas = 2
replica_concurrency = ${i % 4 < 2 ? 1 : 3}
response_grace_period = 30
cooldown = 10
[limits]
max_result = 524288
max_chunk = 524288
`;
}

/** What the service has said of itself. */
class Words {
  readonly news = new Condition();
  up: Extract<ServiceWord, { up: unknown }>["up"] | null = null;
  cases = 0;
  plans = 0;
  unanswered = -1;
  faults: Readonly<Record<string, number>> = {};
  isOver = false;
  startBytes = 0;
  mostBytes = 0;
  #rssBytes = 0;

  get hasReported(): boolean {
    return this.#rssBytes > 0 || this.isOver;
  }

  constructor(command: Command) {
    let rest = "";
    command.child.stdout?.on("data", (data) => {
      const lines = (rest + String(data)).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#hear(JSON.parse(line) as ServiceWord);
      this.news.notify();
    });
    const end = (): void => {
      this.isOver = true;
      this.news.notify();
    };
    void command.exited.finally(end);
  }

  /** What memory is compared with. */
  remember(): void {
    this.startBytes = this.#rssBytes;
    this.mostBytes = this.#rssBytes;
  }

  #hear(word: ServiceWord): void {
    if ("up" in word) this.up = word.up;
    else if ("stopped" in word) {
      this.unanswered = word.stopped.unanswered;
      this.faults = word.stopped.faults;
    } else {
      this.cases = word.report.cases;
      this.plans = word.report.plans;
      this.#rssBytes = word.report.rssBytes ?? this.#rssBytes;
      this.mostBytes = Math.max(this.mostBytes, this.#rssBytes);
    }
  }
}
