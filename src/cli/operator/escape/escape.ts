import { existsSync } from "node:fs";
import { VERSION } from "../../../config/package-files.ts";
import { envOf, type Settings } from "../../../config/setting-keys.ts";
import { readSettings } from "../../../config/settings.ts";
import { findInterpreter } from "../../../host/interpreter.ts";
import { writeEscapeReport } from "../../../host/walls/escape-report.ts";
import { masterKeyPath } from "../../../identity/master-key.ts";
import { ISOLATION } from "../../../shapes/installation.ts";
import { lockHolder } from "../../../store/upkeep/directory-lock.ts";
import { askService } from "../../ask-service.ts";
import { type Address, apiOf } from "../../client/api.ts";
import { CliFailure, EXIT, interruptible } from "../../failure.ts";
import type { OperatorFlags } from "../../options.ts";
import { Output } from "../../output.ts";
import { Progress } from "../../terminal.ts";
import { ScratchService } from "../chaos/scratch-service.ts";
import { Stage, type Target } from "./stage.ts";
import { type Tried, tryAttacks } from "./try-attacks.ts";
import { isSound, judge, type Verdict, verdictText } from "./verdict.ts";
import { METADATA_STAND_IN } from "./victims.ts";

/** Small, so that attacks on them end soon. */
const BOUNDS = {
  [envOf("max_scratch")]: "30MB",
  [envOf("max_project_storage")]: "30MB",
  [envOf("network_deny")]: `${METADATA_STAND_IN}/32`,
};
const KEPT_FAILURES = 50;

/** `millrace doctor --escape`: deploys a hostile app and shows what stopped it; exit code 1 if a claim does not hold. */
export async function escape(flags: OperatorFlags): Promise<void> {
  const { settings } = readSettings({ flags, env: process.env });
  const out = new Output(flags);
  const work = flags["running"] ? attackRunning : attackScratch;
  const verdict = await interruptible(async (signal) => await work(settings, out, signal));
  keep(settings.dataDir, verdict);
  out.show(verdict, () => verdictText(verdict));
  if (!isSound(verdict)) process.exitCode = EXIT.failure;
}

async function attackScratch(settings: Settings, out: Output, signal: AbortSignal): Promise<Verdict> {
  const service = new ScratchService(settings.python, {
    [envOf("isolation")]: settings.isolation,
    [envOf("uid_range")]: `${settings.uidRange.first}-${settings.uidRange.last}`,
    ...BOUNDS,
  });
  try {
    const address = await service.start(signal);
    const { dataDir, pid } = service;
    const masterKey = masterKeyPath({ dataDir, masterKeyFile: null });
    return await attack({ dataDir, masterKey, pid, isScratch: true }, address, settings, out, signal);
  } finally {
    await service.remove();
  }
}

async function attackRunning(settings: Settings, out: Output, signal: AbortSignal): Promise<Verdict> {
  const { dataDir } = settings;
  const asked = await askService(dataDir, "bootstrap");
  if (!asked)
    throw new CliFailure(`no service runs on ${dataDir}`, {
      hint: "without --running, a service of its own is attacked",
    });
  const pid = Number(lockHolder(dataDir));
  const place = { dataDir, masterKey: masterKeyPath(settings), pid, isScratch: false };
  return await attack(place, asked.result as Address, settings, out, signal);
}

async function attack(
  place: Pick<Target, "dataDir" | "masterKey" | "pid" | "isScratch">,
  address: Address,
  settings: Settings,
  out: Output,
  signal: AbortSignal,
): Promise<Verdict> {
  const startedAt = performance.now();
  const api = apiOf(address, signal);
  const { level, rules } = await api.get(ISOLATION, "/v2/isolation");
  const enforced = new Set(rules.filter(({ isEnforced }) => isEnforced).map(({ name }) => name));
  const { path: python } = await findInterpreter(settings.python);
  const stage = new Stage({ ...place, api, python, judgesNetwork: enforced.has("network") });
  const progress = new Progress("deploying a hostile app", out.isJson);
  const all: Tried[] = [];
  try {
    await stage.prepare(signal);
    for await (const tried of tryAttacks(stage)) {
      all.push(tried);
      progress.set(`${all.length} attacks tried; the last: ${tried.attack.name}`);
    }
  } finally {
    progress.end();
    await stage.clear();
  }
  return judge(level, enforced, all, (performance.now() - startedAt) / 1000);
}

/** Keeps a report for the dashboard; without a data directory there is none. */
function keep(dataDir: string, verdict: Verdict): void {
  if (!existsSync(dataDir)) return;
  const { claimed_level: claimed, real_level: real, tried, stopped, failures } = verdict;
  const kept = { claimed, real, tried, stopped, failures: failures.slice(0, KEPT_FAILURES) };
  writeEscapeReport(dataDir, { at: new Date().toISOString(), version: VERSION, ...kept });
}
