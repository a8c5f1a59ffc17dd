import { parseArgs } from "node:util";
import { judgeCold, measureCold } from "./cold.ts";
import { describeMachine } from "./machine.ts";
import { stopAll } from "./processes.ts";
import { clearProgress } from "./progress.ts";
import { coldText, syncText } from "./report.ts";
import { removeScratchDirs } from "./scratch.ts";
import { SUBJECTS } from "./subjects.ts";
import { measureSync } from "./sync.ts";
import type { SyncSettings } from "./sync.ts";
import { judgeSync } from "./targets.ts";
import type { Verdict } from "./targets.ts";

const USAGE = `usage: npm run bench sync|cold [-- options]
  sync        calls/s and latency beside the floor and FastAPI
  cold        from zero replicas to the answer, and scaling out
  --rounds N  rounds of each measurement (default 5, quick 3)
  --seconds S length of a round, sync only (default 2, quick 0.7)
  --quick     a short look; read nothing into small differences
  --json      one JSON document on stdout`;

let isInterrupted = false;

/** Runs one bench and resolves with whether it was sound and every target that it could measure is met. */
async function main(): Promise<boolean> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: "string" },
      seconds: { type: "string" },
      quick: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
    },
  });
  const [what, ...more] = positionals;
  const rounds = Number(values.rounds ?? (values.quick ? 3 : 5));
  const seconds = Number(values.seconds ?? (values.quick ? 0.7 : 2));
  const isSound = Number.isInteger(rounds) && rounds > 0 && seconds > 0 && more.length === 0;
  if (!isSound || (what !== "sync" && what !== "cold") || (what === "cold" && values.seconds !== undefined)) {
    throw new Error(USAGE);
  }
  if (what === "sync") {
    return sync({ rounds, measureMs: seconds * 1000, warmUpMs: values.quick ? 500 : 1000 }, values.json);
  }
  return cold(rounds, values.json);
}

async function sync(settings: SyncSettings, asJson: boolean): Promise<boolean> {
  const machine = await describeMachine();
  const subjects = await measureSync(SUBJECTS, settings);
  const verdicts = judgeSync(subjects);
  print(
    asJson
      ? JSON.stringify({ machine, settings, subjects, verdicts })
      : syncText(machine, settings, subjects, verdicts),
  );
  const isSound = subjects.every(({ status }) => status === "measured" || status === "skipped");
  return isSound && noneMissed(verdicts);
}

async function cold(repeats: number, asJson: boolean): Promise<boolean> {
  const machine = await describeMachine();
  const figures = await measureCold(repeats);
  const verdicts = judgeCold(figures);
  print(asJson ? JSON.stringify({ machine, figures, verdicts }) : coldText(machine, figures, verdicts));
  return figures.problem === null && noneMissed(verdicts);
}

function noneMissed(verdicts: readonly Verdict[]): boolean {
  return verdicts.every(({ isMet }) => isMet !== false);
}

async function cleanUp(): Promise<void> {
  await stopAll();
  removeScratchDirs();
}

function print(text: string): void {
  // What an interrupted bench has measured so far is no result.
  if (isInterrupted) return;
  clearProgress();
  console.log(text);
}

for (const [signal, code] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
  ["SIGHUP", 129],
] as const) {
  process.on(signal, () => {
    isInterrupted = true;
    // A second Ctrl-C finds the stopping under way and changes nothing.
    void cleanUp().finally(() => process.exit(code));
  });
}

try {
  process.exitCode = (await main()) ? 0 : 1;
} catch (error) {
  clearProgress();
  if (!isInterrupted) console.error((error as Error).message);
  process.exitCode = 2;
} finally {
  await cleanUp();
}
