import { existsSync } from "node:fs";
import path from "node:path";
import type { StorageLimits } from "../apps/storage-report.ts";
import { readSettings } from "../config/settings.ts";
import type { Settings } from "../config/setting-keys.ts";
import type { Enforcement } from "../host/limits/limits.ts";
import type { StandingWalls } from "../host/walls/walls.ts";
import { DirectoryInUseError, lockDirectory, lockHolder } from "../store/upkeep/directory-lock.ts";
import type { DirectoryLock } from "../store/upkeep/directory-lock.ts";
import { DATABASE_FILE, inspectDatabase } from "../store/upkeep/whole-database.ts";
import type { DatabaseReport } from "../store/upkeep/report.ts";
import { SilentServiceError, askService } from "./ask-service.ts";
import { checkAppHosts } from "./check-app-hosts.ts";
import { checkApps } from "./check-apps.ts";
import { checkKubernetes } from "./check-kubernetes.ts";
import { checkMasterKey, checkNodes } from "./check-nodes.ts";
import { checkRay } from "./check-ray.ts";
import { checkStorage } from "./check-storage.ts";
import {
  checkAudit,
  checkClock,
  checkDatabase,
  checkDirectory,
  checkDisk,
  checkLock,
  checkPermissions,
  checkPorts,
} from "./checks.ts";
import type { Holder } from "./checks.ts";
import type { Finding } from "./finding.ts";
import {
  checkCuda,
  checkImages,
  checkLimits,
  checkNetwork,
  checkNode,
  checkPythons,
  checkSandbox,
  lookAtWalls,
} from "./host-checks.ts";
import { printable } from "./output/paint.ts";
import { repair } from "./repair.ts";
import type { ServeFlags } from "./serve.ts";

/** `millrace doctor`: looks at everything a start depends on, and says what to do; exit code 1 if something fails. */
export async function doctor(flags: ServeFlags): Promise<void> {
  const { settings } = readSettings({ flags, env: process.env });
  const say = flags["json"] ? () => {} : (text: string) => void process.stderr.write(`${printable(text)}\n`);
  // First: what is looked at afterwards is what came of it.
  const repaired = flags["repair"] ? await repair(settings, say) : [];
  const findings = [...repaired, ...(await examine(settings))];
  if (flags["json"]) process.stdout.write(`${JSON.stringify(findings)}\n`);
  else for (const finding of findings) process.stdout.write(line(finding));
  if (findings.some(({ status }) => status === "fail")) process.exitCode = 1;
}

async function examine(settings: Settings): Promise<Finding[]> {
  const { dataDir } = settings;
  const directory = checkDirectory(dataDir);
  // Before we take the lock ourselves.
  const lockedBy = lockHolder(dataDir);
  const { holder, report, lock, limits, enforcement, seatWalls = null } = await look(settings);
  // Those of the service where one runs: whoever asks may have others.
  const bounds = { ...settings, ...limits };
  const walls = await lookAtWalls(settings, process.env);
  const findings = [
    directory,
    checkPermissions(dataDir),
    checkMasterKey(settings),
    checkLock(holder, lockedBy),
    ...checkDatabase(report),
    ...checkAudit(report),
    ...(await checkApps(report, settings)),
    await checkDisk(bounds, report),
    ...(await checkStorage(report, bounds)),
    checkNode(process.versions.node),
    ...(await checkPythons(settings, process.env)),
    checkSandbox(settings, walls),
    await checkLimits(settings, walls, enforcement),
    await checkNetwork(settings, walls),
    await checkCuda(settings, walls, process.env),
    await checkImages(settings, process.env),
    ...(await checkKubernetes(settings, process.env)),
    await checkRay(settings, seatWalls),
    await checkPorts(settings, holder),
    await checkAppHosts(settings),
    ...(await checkNodes(settings, report)),
    checkClock(report, Date.now()),
  ];
  lock?.release();
  return findings;
}

type Seen = {
  readonly holder: Holder;
  readonly report: DatabaseReport | Error | null;
  readonly lock: DirectoryLock | null;
  readonly limits?: StorageLimits;
  readonly enforcement?: Enforcement;
  readonly seatWalls?: StandingWalls | null;
};

/** Asks the service for its database if one runs; else looks itself, with the directory locked. */
async function look(settings: Settings): Promise<Seen> {
  const { dataDir, databaseUrl } = settings;
  try {
    const asked = await askService(dataDir, "inspectDatabase");
    if (asked)
      return {
        holder: "service",
        lock: null,
        ...(asked.result as Pick<Seen, "report" | "limits" | "enforcement" | "seatWalls">),
      };
  } catch (error) {
    const holder = error instanceof SilentServiceError ? "silent" : "service";
    return { holder, report: error as Error, lock: null };
  }
  if (!existsSync(dataDir)) return { holder: "nobody", report: null, lock: null };
  let lock: DirectoryLock;
  try {
    lock = lockDirectory(dataDir);
  } catch (error) {
    const isHeld = error instanceof DirectoryInUseError;
    return { holder: isHeld ? "silent" : "nobody", report: error as Error, lock: null };
  }
  const hasDatabase = databaseUrl !== null || existsSync(path.join(dataDir, DATABASE_FILE));
  const report = hasDatabase ? await inspectDatabase(settings, true).catch((error: Error) => error) : null;
  return { holder: "nobody", report, lock };
}

function line({ check, status, message, remedy }: Finding): string {
  return `${status.padEnd(6)}${check.padEnd(17)}${message}\n${remedy === null ? "" : `${"".padEnd(23)}→ ${remedy}\n`}`;
}
