import { spawnSync } from "node:child_process";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { descendantsOf, endOfReplicas } from "./proc.ts";
import { runTool } from "./processes.ts";
import { progress } from "./progress.ts";
import { makeScratchDir } from "./scratch.ts";
import { CALL_BODY } from "./subject.ts";
import { startScript } from "./subjects.ts";
import { type MillraceRunning, startMillrace } from "./subjects/millrace.ts";
import { judge, medianBy, type Verdict } from "./targets.ts";
import { timedCall } from "./timed-call.ts";

/** Medians in milliseconds; null where the service did not get that far. */
export type ColdFigures = {
  readonly repeats: number;
  readonly interpreterMs: number | null;
  readonly firstEverMs: number | null;
  readonly keptTemplateMs: number | null;
  readonly scaleOutMs: number | null;
  readonly problem: string | null;
};

const REPLICAS = 8;
const HOLD_SECONDS = 0.3;
const FROM_ZERO = join(import.meta.dirname, "apps/from-zero");

/** Measures starts of every kind, each several times. */
export async function measureCold(repeats: number): Promise<ColdFigures> {
  const interpreter: number[] = [];
  const firstEver: number[] = [];
  const keptTemplate: number[] = [];
  const scaleOut: number[] = [];
  let problem: string | null = null;
  try {
    await warmOwnClient();
    await measureFirstEver(repeats, interpreter, firstEver);
    await measureKeptTemplate(repeats, keptTemplate, scaleOut);
  } catch (error) {
    problem = (error as Error).message;
  }
  return {
    repeats,
    interpreterMs: median(interpreter),
    firstEverMs: median(firstEver),
    keptTemplateMs: median(keptTemplate),
    scaleOutMs: median(scaleOut),
    problem,
  };
}

/** The promises on cold starts. */
export function judgeCold(figures: ColdFigures): Verdict[] {
  const { interpreterMs, firstEverMs, keptTemplateMs, scaleOutMs } = figures;
  const bound = { bound: "at most", spread: null } as const;
  return [
    judge({
      ...bound,
      what: "first ever call / interpreter with import main",
      target: 3,
      unit: "ratio",
      value: firstEverMs === null || interpreterMs === null ? null : firstEverMs / interpreterMs,
    }),
    judge({
      ...bound,
      what: "from zero replicas, template kept, import of 2 s",
      target: 50,
      unit: "ms",
      value: keptTemplateMs,
    }),
    judge({ ...bound, what: "from 1 to 8 replicas", target: 200, unit: "ms", value: scaleOutMs }),
  ];
}

/** The first HTTP calls of a Node process are slow by themselves: they go to a server that does not count. */
async function warmOwnClient(): Promise<void> {
  const echo = await startScript("floor/echo.ts");
  for (let i = 0; i < 50; i++) await timedCall(echo.url, {}, CALL_BODY);
  await echo.stop();
}

/** The interpreter alone and the service's first call take turns, so that both meet the same machine. */
async function measureFirstEver(repeats: number, interpreter: number[], firstEver: number[]): Promise<void> {
  // By its real path: a version chooser in front of Python would make the comparison too easy.
  const python = await runTool("python3", ["-c", "import sys; print(sys.executable)"]);
  const app = makeScratchDir();
  cpSync(FROM_ZERO, app, { recursive: true });
  // Once uncounted: a deploy compiles bytecode ahead too.
  timeImport(python, app);
  progress("deploying from-zero");
  const dataDir = makeScratchDir();
  await (await startMillrace(dataDir, ["from-zero"])).stop();
  for (let round = 1; round <= repeats; round++) {
    progress(`first ever call, ${round}/${repeats}`);
    interpreter.push(timeImport(python, app), timeImport(python, app));
    const service = await startMillrace(dataDir, []);
    const call = await timedCall(service.callUrl("from-zero"), service.headers, CALL_BODY);
    firstEver.push(call.ms);
    await service.stop();
  }
}

/** Waits in place: going back and forth through the event loop would add 2 to 3 ms to the baseline. */
function timeImport(python: string, folder: string): number {
  const startedAt = performance.now();
  const { status } = spawnSync(python, ["-c", "import main"], { cwd: folder, stdio: "ignore" });
  if (status !== 0) throw new Error(`${python} -c "import main" ended with status ${status}`);
  return performance.now() - startedAt;
}

async function measureKeptTemplate(repeats: number, fromZero: number[], scaleOut: number[]): Promise<void> {
  progress("deploying slow-import");
  const service = await startMillrace(makeScratchDir(), ["slow-import"]);
  const url = service.callUrl("slow-import");
  let last = await timedCall(url, service.headers, "{}");
  let [replicas, processes] = [1, descendantsOf(service.pid).length];
  for (let round = 1; round <= repeats; round++) {
    progress(`from zero with a kept template, then 1 to ${REPLICAS} replicas, ${round}/${repeats}`);
    await endOfReplicas(service.pid, processes, replicas);
    const call = await timedCall(url, service.headers, "{}");
    if (call.result["imported_by"] !== last.result["imported_by"]) {
      throw new Error("the template was not kept: the app was imported again");
    }
    fromZero.push(call.ms);
    last = call;
    // That call left one idle replica; the burst comes well inside its cooldown.
    scaleOut.push(await scaleOutBurst(service));
    [replicas, processes] = [REPLICAS, descendantsOf(service.pid).length];
  }
  await service.stop();
}

/**
 * Calls as many times at once as there may be replicas, each call keeping its replica busy; the time runs until
 * the last of them has entered the function. Python's and Node's monotonic clocks are one on Linux.
 */
async function scaleOutBurst(service: MillraceRunning): Promise<number> {
  const url = service.callUrl("slow-import", "hold");
  const body = JSON.stringify({ seconds: HOLD_SECONDS });
  const startedAt = Number(process.hrtime.bigint()) / 1e9;
  const calls = await Promise.all(
    Array.from({ length: REPLICAS }, () => timedCall(url, service.headers, body)),
  );
  const pids = new Set(calls.map((call) => call.result["pid"]));
  if (pids.size !== REPLICAS) {
    throw new Error(`${REPLICAS} calls of ${HOLD_SECONDS} s met ${pids.size} replica(s), not ${REPLICAS}`);
  }
  const lastEnteredAt = Math.max(...calls.map((call) => Number(call.result["entered_at"])));
  return (lastEnteredAt - startedAt) * 1000;
}

function median(values: readonly number[]): number | null {
  return medianBy(values, (value) => value);
}
