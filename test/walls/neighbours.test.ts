import { expect } from "vitest";
import { serveApps, type ServedApps } from "../support/serve-apps.ts";
import { verifies } from "../verifies.ts";

/** Each takes what it can, within bounds that no machine dies of, and again whenever it was ended. */
const BOMBS = {
  memory: "held = [b'x' * (4 << 20) for _ in range(150)]\n    time.sleep(2)",
  forks: `children = []
    try:
        for _ in range(500):
            child = os.fork()
            if child == 0:
                time.sleep(2)
                os._exit(0)
            children.append(child)
    finally:
        for child in children:
            os.waitpid(child, 0)`,
  disk: `path = os.path.join(tempfile.gettempdir(), "filler")
    with open(path, "wb") as file:
        for _ in range(200):
            file.write(b"x" * 1_000_000)
    os.unlink(path)`,
  logs: "for number in range(20_000):\n        print('flood', number, 'x' * 80)",
} as const;

const GOOD = "def run(n):\n    return 2 * n + 1\n";
const LIMITS = "[hardware]\ncpu = 0.25\nmemory = 0.25\n[scaling]\nmax_replicas = 1\n";
const main = (body: string): string => `import os\nimport tempfile\nimport time\n\ndef run():\n    ${body}\n`;

const ROUNDS = 3;
const CALLS = 1_000;
/**
 * What neighbours may cost the service's main thread, in processor time for the same calls. How long calls take depends on
 * how many processors the bombs leave free.
 */
const MOST = 2;

type Round = { readonly cpuMs: number; readonly p99Ms: number };

/** So many calls, one after the other; each has to give the right answer. The service runs in this thread. */
async function callAll(service: ServedApps): Promise<Round> {
  const before = process.threadCpuUsage();
  const times: number[] = [];
  for (let n = 0; n < CALLS; n++) {
    const startedAt = performance.now();
    const { status, json } = await service.call("good", "run", { n });
    times.push(performance.now() - startedAt);
    expect([status, json.result]).toEqual([200, 2 * n + 1]);
  }
  const { user, system } = process.threadCpuUsage(before);
  const p99Ms = times.toSorted((a, b) => a - b)[Math.ceil(CALLS * 0.99) - 1] ?? 0;
  return { cpuMs: (user + system) / 1_000, p99Ms };
}

/** Has every bomb go off, again and again, until it is told to stop; resolves with how often each did when they have ended. */
function startBombs(service: ServedApps): () => Promise<number[]> {
  const over = new AbortController();
  const going = Object.keys(BOMBS).map(async (app) => {
    let count = 0;
    for (; !over.signal.aborted; count++) await service.call(app, "run");
    return count;
  });
  return async () => {
    over.abort();
    return await Promise.all(going);
  };
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

verifies(
  "walls.neighbours",
  "beside bombs of memory, forks, disk and log lines all calls of a good app succeed, and the service stays free for them",
  async () => {
    const bombs = Object.entries(BOMBS).map(
      ([name, body]) => [name, { main: main(body), toml: LIMITS }] as const,
    );
    const apps = { good: { main: GOOD }, ...Object.fromEntries(bombs) };
    const service = await serveApps(apps, { MILLRACE_ISOLATION: "auto", MILLRACE_MAX_SCRATCH: "100MB" });
    await callAll(service);
    const [alone, beside]: [Round[], Round[]] = [[], []];
    for (let round = 0; round < ROUNDS; round++) {
      alone.push(await callAll(service));
      const stop = startBombs(service);
      beside.push(await callAll(service));
      const counts = await stop();
      expect(Math.min(...counts)).toBeGreaterThan(0);
    }
    const cpu = (rounds: readonly Round[]): number => median(rounds.map(({ cpuMs }) => cpuMs));
    const ratio = cpu(beside) / cpu(alone);
    const shown = [alone, beside].map((rounds) => rounds.map(({ p99Ms }) => p99Ms.toFixed(2)).join(", "));
    process.stderr.write(
      `\np99 in ms, alone: ${shown[0]}; beside bombs: ${shown[1]}; processor time ${ratio.toFixed(2)}\n`,
    );
    expect(ratio).toBeLessThanOrEqual(MOST);
  },
);
