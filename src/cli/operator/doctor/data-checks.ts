import { accessSync, constants, existsSync, lstatSync, statfsSync, statSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { type VersionFault, versionFault } from "../../../apps/builds/version-fault.ts";
import { bytesBelow } from "../../../apps/storage-report.ts";
import { envOf, SETTING_KEYS, type Settings } from "../../../config/setting-keys.ts";
import { Containers } from "../../../host/containers/containers.ts";
import { artifactFolders } from "../../../host/data-folders.ts";
import { MASTER_KEY } from "../../../identity/master-key.ts";
import { DiskReserve } from "../../../kit/disk-reserve.ts";
import { missingObjects, schemaState } from "../../../store/schema/migrate.ts";
import { UnreleasedFormat } from "../../../store/schema/unreleased.ts";
import type { DatabaseReport } from "../../../store/upkeep/report.ts";
import { DATABASE_FILE } from "../../../store/upkeep/whole-database.ts";
import { bytes } from "../../output.ts";
import { fail, type Finding, ok, warn } from "./finding.ts";

/** What holds the data directory. */
export type Holder = "none" | "service" | "silent";

const PRIVATE = [MASTER_KEY, "owner-token", DATABASE_FILE];
/** Every release is younger: a clock before it is not set. */
const FIRST_RELEASE = Date.UTC(2026, 0, 1);
const MAX_SKEW_MS = 60_000;

/** The directory exists, belongs to us, and is closed to other users. */
export function checkDirectory(dataDir: string): Finding {
  const check = "data directory";
  if (!existsSync(dataDir)) {
    return warn(check, `${dataDir} does not exist`, "the first start creates it; is it the right directory?");
  }
  const { mode, uid } = statSync(dataDir);
  if (uid !== process.getuid?.()) {
    return fail(check, `${dataDir} belongs to user ${uid}`, "run as that user, or change the owner");
  }
  try {
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return fail(check, `${dataDir} cannot be written`, `chmod u+rwx ${dataDir}`);
  }
  if ((mode & 0o077) !== 0) return warn(check, `other users can read ${dataDir}`, `chmod 700 ${dataDir}`);
  return ok(check, dataDir);
}

/** Files with keys and tokens are plain files that only their owner reads. */
export function checkPermissions(dataDir: string): Finding {
  const check = "permissions";
  const files = PRIVATE.map((name) => path.join(dataDir, name)).filter((file) => existsSync(file));
  const open = files.filter((file) => !lstatSync(file).isFile() || (statSync(file).mode & 0o077) !== 0);
  if (open.length > 0)
    return fail(check, `other users can read ${open.join(", ")}`, `chmod 600 ${open.join(" ")}`);
  return ok(check, `${files.length} private files`);
}

/** A lock belongs to a service that answers. */
export function checkLock(holder: Holder, pid: string | null): Finding {
  const check = "lock";
  if (holder === "service") return ok(check, `in use by process ${pid}, which answers`);
  const remedy = "it may be starting or stopping; if this persists, check its log";
  if (holder === "silent")
    return fail(check, `process ${pid} uses the directory but does not answer`, remedy);
  if (pid !== null)
    return warn(check, `left behind by process ${pid}`, "nothing to do: it was stale and has been removed");
  return ok(check, "free");
}

/** The file is sound, and this release can use or migrate it. */
export function checkDatabase(report: DatabaseReport | Error | null): Finding[] {
  if (report === null) return [warn("database", "no database yet", "the first start creates it")];
  if (report instanceof UnreleasedFormat)
    return [fail("database", report.message, "see Upgrade in docs/operations.md")];
  if (report instanceof Error) {
    return [fail("database", report.message, "if it cannot be repaired, see Restore in docs/operations.md")];
  }
  const [problem] = report.problems;
  const remedy = "stop the service and restore the last backup";
  const file =
    problem === undefined ? ok("database", "sound") : fail("database", `damaged: ${problem}`, remedy);
  return [file, checkSchema(report)];
}

function checkSchema(report: DatabaseReport): Finding {
  const state = schemaState(report);
  const last = report.migrations.at(-1) ?? "none";
  if (state === "newer")
    return fail("schema", `${last} is from a newer release`, "start that release or a later one");
  if (state === "older") return ok("schema", `${last}; the next start brings it up to date`);
  const missing = missingObjects(report);
  if (missing.length === 0) return ok("schema", last);
  const remedy = "the database was changed from outside; restore the last backup";
  return fail("schema", `${last}, but missing ${missing.slice(0, 5).join(", ")}`, remedy);
}

/** No entry of the audit log was changed or removed. */
export function checkAudit(report: DatabaseReport | null): Finding[] {
  if (!report) return [];
  const { count, brokenAt } = report.audit;
  if (brokenAt === null)
    return [ok("audit log", count === 1 ? "1 entry, intact" : `${count} entries, intact`)];
  const problem = `the hash chain breaks at entry ${brokenAt}: an entry was changed or removed`;
  const remedy = "the database was changed from outside; an earlier backup shows the entry";
  return [fail("audit log", problem, remedy)];
}

/** There is enough room, by the rule of the service itself. */
export async function checkDisk(
  { dataDir, databaseUrl, diskReserveBytes }: Settings,
  report: DatabaseReport | null,
): Promise<Finding> {
  const check = "disk";
  const place = existsSync(dataDir) ? dataDir : path.dirname(dataDir);
  const { bavail, bsize } = statfsSync(place);
  const inside = report?.freeBytes ?? 0;
  // With Postgres, nothing is reserved here.
  const kept = databaseUrl === null ? diskReserveBytes : 0;
  const reserve = new DiskReserve(place, kept, {
    insideBytes: () => Promise.resolve(inside),
    setting: "MILLRACE_DISK_RESERVE",
  });
  await reserve.look();
  const free = bavail * bsize;
  const message = `${Math.round(free / 1e6)} MB free`;
  if (reserve.isLow) {
    return fail(check, `${message}: no async run is accepted`, "make room, or lower MILLRACE_DISK_RESERVE");
  }
  if (free + inside < 4 * kept) return warn(check, message, "make room, or lower MILLRACE_MAX_STORAGE");
  return ok(check, message);
}

/** Nothing else has the ports, unless it is the service. */
export async function checkPorts({ host, apiPort, basePort }: Settings, holder: Holder): Promise<Finding> {
  if (holder !== "none") return ok("ports", "in use by the service");
  const taken: number[] = [];
  for (const port of [apiPort, basePort]) if (!(await isFree(host, port))) taken.push(port);
  if (taken.length === 0) return ok("ports", `${apiPort} and ${basePort} are free on ${host}`);
  const remedy = "stop what listens there, or set MILLRACE_API_PORT and MILLRACE_BASE_PORT";
  return fail("ports", `${taken.join(" and ")} cannot be used on ${host}`, remedy);
}

async function isFree(host: string, port: number): Promise<boolean> {
  const server = createServer();
  return await new Promise((resolve) => {
    server.once("error", () => resolve(false));
    server.listen({ host, port }, () => server.close(() => resolve(true)));
  });
}

/** The clock is right: tokens expire and runs are sorted by it. */
export function checkClock(report: DatabaseReport | null, now: number): Finding {
  const remedy = "set the clock, and keep it right with NTP";
  if (now < FIRST_RELEASE) return fail("clock", `it says ${new Date(now).toISOString()}`, remedy);
  const newestAt = report?.newestAt ?? now;
  if (newestAt > now + MAX_SKEW_MS) {
    const seconds = Math.round((newestAt - now) / 1000);
    return warn("clock", `it is ${seconds} s behind the newest entry in the database`, remedy);
  }
  return ok("clock", new Date(now).toISOString());
}

const REMEDIES: Readonly<Record<VersionFault["what"], string>> = {
  bundle: "deploy the app again, or restore the last backup",
  environment: "millrace doctor --repair installs its packages again",
  interpreter: "install that Python, or deploy the app for another one",
};

/** Every version that may serve has its bundle, its packages and its Python. */
export async function checkApps(
  report: DatabaseReport | null,
  settings: Pick<Settings, "dataDir" | "python" | "containerEngine" | "engine">,
): Promise<Finding[]> {
  if (!report) return [];
  const { dataDir, python, engine } = settings;
  const containers = new Containers(settings);
  const faults: { name: string; isCurrent: boolean; fault: VersionFault }[] = [];
  for (const { app, number, isCurrent, isStored, ...version } of report.versions) {
    // With other engines, the machines that run the app have it.
    const needed = engine === "process" ? version.python : null;
    const folders = artifactFolders({ ...version, bundle: version.bundleDir }, dataDir);
    const { bundle, environment } = folders;
    // This machine fetches a stored version when it needs it.
    const isHere = existsSync(bundle) && (environment === null || existsSync(environment));
    if (isStored && !isHere) continue;
    const fault = await versionFault({ ...folders, python: needed }, python, dataDir, containers);
    if (fault) faults.push({ name: `${app}, version ${number}`, isCurrent, fault });
  }
  // Versions that serve come first.
  const [first] = faults.toSorted((a, b) => Number(b.isCurrent) - Number(a.isCurrent));
  if (!first) {
    const { length } = report.versions;
    const who = length === 1 ? "1 version has all it needs" : `${length} versions have all they need`;
    return [ok("apps", `${who} to start`)];
  }
  const more = faults.length === 1 ? "" : `; ${faults.length - 1} more`;
  const message = `${first.name}: ${first.fault.message}${more}`;
  return [(first.isCurrent ? fail : warn)("apps", message, REMEDIES[first.fault.what])];
}

/** Past this share of a limit the oldest entries are removed soon, or already. */
const NEARLY_ALL = 0.9;

/** How much is stored, and whether old data is removed early because there is too much. */
export async function checkStorage(report: DatabaseReport | null, settings: Settings): Promise<Finding[]> {
  if (!report) return [];
  const { runs, payloadBytes, logBytes, builds, deliveries } = report.amounts;
  const bounded = [
    { name: "runs", used: runs, key: "maxRuns", text: String },
    { name: "payloads and transcripts", used: payloadBytes, key: "maxStorageBytes", text: bytes },
    { name: "logs", used: logBytes, key: "maxLogBytes", text: bytes },
  ] as const;
  const environments = await bytesBelow(path.join(settings.dataDir, "environments"));
  const message = [
    ...bounded.map(({ name, used, key, text }) => `${name} ${text(used)} of ${text(settings[key])}`),
    `builds ${builds}`,
    `deliveries ${deliveries}`,
    `environments ${bytes(environments)}`,
  ].join(", ");
  const full = bounded.filter(({ used, key }) => used > NEARLY_ALL * settings[key]);
  if (full.length === 0) return [ok("storage", message)];
  const names = full.map(({ key }) => envOf(SETTING_KEYS[key].name)).join(" and ");
  const remedy = `the oldest are removed to make room: raise ${names}, or see what uses it with millrace storage`;
  return [warn("storage", message, remedy)];
}
