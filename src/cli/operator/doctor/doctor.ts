import { existsSync } from "node:fs";
import path from "node:path";
import { type Repaired, repairEnvironments } from "../../../apps/repair-environments.ts";
import type { StorageLimits } from "../../../apps/storage-report.ts";
import type { Settings } from "../../../config/setting-keys.ts";
import { readSettings } from "../../../config/settings.ts";
import { Containers } from "../../../host/containers/containers.ts";
import { openGpus } from "../../../host/gpus/discovery.ts";
import { type GpuSource, NO_GPUS } from "../../../host/gpus/source.ts";
import { findInterpreter } from "../../../host/interpreter.ts";
import type { Enforcement } from "../../../host/limits/limits.ts";
import { settleStorage } from "../../../host/storage/settle.ts";
import { hostReads } from "../../../host/walls/host-reads.ts";
import { requireNetwork, requireLevel } from "../../../host/walls/require-walls.ts";
import type { StandingWalls } from "../../../host/walls/walls.ts";
import { systemClock } from "../../../kit/clock.ts";
import { createLog } from "../../../kit/log.ts";
import type { NodeGpus } from "../../../shapes/hardware.ts";
import { openStore } from "../../../store/store.ts";
import { DirectoryInUseError, lockDirectory, lockHolder } from "../../../store/upkeep/directory-lock.ts";
import type { DirectoryLock } from "../../../store/upkeep/directory-lock.ts";
import type { DatabaseReport } from "../../../store/upkeep/report.ts";
import { DATABASE_FILE, inspectDatabase } from "../../../store/upkeep/whole-database.ts";
import { askService, SilentServiceError } from "../../ask-service.ts";
import type { OperatorFlags } from "../../options.ts";
import { printable } from "../../output.ts";
import { pastable } from "../../program-name.ts";
import * as data from "./data-checks.ts";
import type { Holder } from "./data-checks.ts";
import { checkKubernetes, checkRay } from "./engine-checks.ts";
import { fail, type Finding, ok } from "./finding.ts";
import { checkGpus, driverFiles, lookAtGpus } from "./gpu-checks.ts";
import * as host from "./host-checks.ts";
import { checkAppHosts, checkMasterKey, checkNodes } from "./node-checks.ts";

/** `millrace doctor`: checks everything that a start depends on, and says what to do; exit code 1 if a check fails. */
export async function doctor(flags: OperatorFlags): Promise<void> {
  const { settings } = readSettings({ flags, env: process.env });
  const say = flags["json"] ? () => {} : (text: string) => void process.stderr.write(`${printable(text)}\n`);
  // First: the checks show the state after the repair.
  const repaired = flags["repair"] ? await repair(settings, say) : [];
  const findings = [...repaired, ...(await examine(settings))];
  if (flags["json"]) process.stdout.write(`${JSON.stringify(findings)}\n`);
  else for (const finding of findings) process.stdout.write(line(finding, flags));
  if (findings.some(({ status }) => status === "fail")) process.exitCode = 1;
}

async function examine(settings: Settings): Promise<Finding[]> {
  const { dataDir } = settings;
  const directory = data.checkDirectory(dataDir);
  // Before we take the lock ourselves.
  const lockedBy = lockHolder(dataDir);
  const { holder, report, lock, limits, enforcement, seatWalls = null, gpus } = await look(settings);
  const database = report instanceof Error ? null : report;
  // The settings of the service if one runs: those of this command may differ.
  const bounds = { ...settings, ...limits };
  const walls = await host.lookAtWalls(settings, process.env);
  const findings = [
    directory,
    data.checkPermissions(dataDir),
    checkMasterKey(settings),
    data.checkLock(holder, lockedBy),
    ...data.checkDatabase(report),
    ...data.checkAudit(database),
    ...(await data.checkApps(database, settings)),
    await data.checkDisk(bounds, database),
    ...(await data.checkStorage(database, bounds)),
    host.checkNode(process.versions.node),
    ...(await host.checkPythons(settings, process.env)),
    host.checkSandbox(settings, walls),
    await host.checkLimits(settings, walls, enforcement),
    await host.checkNetwork(settings, walls),
    ...checkGpus(gpus ?? (await lookAtGpus(async () => await openOwn(settings))), driverFiles()),
    await host.checkCuda(settings, walls, process.env),
    await host.checkImages(settings, process.env),
    ...(await checkKubernetes(settings, process.env)),
    await checkRay(settings, seatWalls),
    await data.checkPorts(settings, holder),
    await checkAppHosts(settings),
    ...(await checkNodes(settings, database)),
    data.checkClock(database, Date.now()),
  ];
  lock?.release();
  return findings;
}

/** The GPUs of this machine, if the service would grant them to its apps. */
async function openOwn({ engine, gpus, python: wanted }: Settings): Promise<GpuSource> {
  if (engine !== "process") return NO_GPUS;
  // Without a Python the check of Pythons says what to do.
  const found = await findInterpreter(wanted).catch(() => null);
  if (found === null) return NO_GPUS;
  return await openGpus(gpus, { python: found.path, clock: systemClock, log: createLog("silent") });
}

type Seen = {
  readonly holder: Holder;
  readonly report: DatabaseReport | Error | null;
  readonly lock: DirectoryLock | null;
  readonly limits?: StorageLimits;
  readonly enforcement?: Enforcement;
  readonly seatWalls?: StandingWalls | null;
  /** As the service knows them: it has seen the errors that took one out of service. */
  readonly gpus?: NodeGpus;
};

/** Asks the service for its database if one runs; else looks itself, with the directory locked. */
async function look(settings: Settings): Promise<Seen> {
  const { dataDir, databaseUrl } = settings;
  try {
    const asked = await askService(dataDir, "inspectDatabase");
    if (asked) return { holder: "service", lock: null, ...(asked.result as Omit<Seen, "holder" | "lock">) };
  } catch (error) {
    const holder = error instanceof SilentServiceError ? "silent" : "service";
    return { holder, report: error as Error, lock: null };
  }
  if (!existsSync(dataDir)) return { holder: "none", report: null, lock: null };
  let lock: DirectoryLock;
  try {
    lock = lockDirectory(dataDir);
  } catch (error) {
    const isHeld = error instanceof DirectoryInUseError;
    return { holder: isHeld ? "silent" : "none", report: error as Error, lock: null };
  }
  const hasDatabase = databaseUrl !== null || existsSync(path.join(dataDir, DATABASE_FILE));
  const report = hasDatabase ? await inspectDatabase(settings, true).catch((error: Error) => error) : null;
  return { holder: "none", report, lock };
}

function line({ check, status, message, remedy }: Finding, flags: OperatorFlags): string {
  const next =
    remedy === null ? "" : `${"".padEnd(23)}→ ${pastable(remedy, { dataDir: flags["dataDir"] })}\n`;
  return `${status.padEnd(6)}${check.padEnd(17)}${message}\n${next}`;
}

/** `millrace doctor --repair`: the service does it if one runs, else we do if we can, with the directory locked. */
export async function repair(settings: Settings, say: (text: string) => void): Promise<Finding[]> {
  const asked = await askService(settings.dataDir, "repairEnvironments");
  if (!asked && settings.engine !== "process") {
    const problem = "packages are installed where apps run, by a running service";
    return [fail("repair", problem, "start the service, and run the repair again")];
  }
  const repaired = asked ? (asked.result as Repaired[]) : await repairAlone(settings, say);
  if (repaired.length === 0) return [ok("repair", "nothing needed repair")];
  return repaired.map(({ app, version, problem }) => {
    const name = `${app}, version ${version}`;
    if (problem === null) return ok("repair", `${name}: reinstalled its packages`);
    const remedy = "fix the cause and run the repair again, or deploy the app again";
    return fail("repair", `${name}: ${problem}`, remedy);
  });
}

async function repairAlone(settings: Settings, say: (text: string) => void): Promise<Repaired[]> {
  const { dataDir } = settings;
  const python = await findInterpreter(settings.python);
  const reads = hostReads(process.env, dataDir);
  const { level } = await requireLevel(settings, python.path, reads);
  const network = await requireNetwork(settings, level, python.path, () => settings.basePort);
  const walls = level && { level, python: python.path, dataDir, reads, network };
  const lock = lockDirectory(dataDir);
  try {
    const log = createLog(settings.logLevel);
    const storage = await settleStorage({ ...settings, level, python: python.path, log });
    const store = await openStore(settings);
    const { signal } = new AbortController();
    try {
      const images = { containers: new Containers(settings), baseImage: settings.baseImage };
      const host = { dataDir, python, walls, limits: null, storage, images };
      return await repairEnvironments({ ...host, store, say, signal });
    } finally {
      await store.close();
    }
  } finally {
    lock.release();
  }
}
