import { existsSync } from "node:fs";
import { versionFault } from "../apps/builds/version-fault.ts";
import type { BuiltVersion, VersionFault } from "../apps/builds/version-fault.ts";
import { Containers } from "../host/containers/containers.ts";
import { artifactFolders } from "../host/data-folders.ts";
import type { Settings } from "../config/setting-keys.ts";
import type { DatabaseReport } from "../store/upkeep/report.ts";
import { fail, ok, warn } from "./finding.ts";
import type { Finding } from "./finding.ts";

const REMEDIES: Readonly<Record<VersionFault["what"], string>> = {
  bundle: "deploy the app again, or restore the last backup",
  environment: "millrace doctor --repair installs its packages again",
  interpreter: "install that Python, or deploy the app for another one",
};

/** Whether this machine has its files, whole or not. */
function isHere({ bundle, environment }: Pick<BuiltVersion, "bundle" | "environment">): boolean {
  return existsSync(bundle) && (environment === null || existsSync(environment));
}

/** Every version that may serve has its bundle, its packages and its Python. */
export async function checkApps(
  report: DatabaseReport | Error | null,
  {
    dataDir,
    python,
    containerEngine,
    engine,
  }: Pick<Settings, "dataDir" | "python" | "containerEngine" | "engine">,
): Promise<Finding[]> {
  if (report === null || report instanceof Error) return [];
  const containers = new Containers({ dataDir, containerEngine });
  const faults: { name: string; isCurrent: boolean; fault: VersionFault }[] = [];
  for (const { app, number, isCurrent, isStored, ...version } of report.versions) {
    // Elsewhere, the machines that it runs on have it.
    const needed = engine === "process" ? version.python : null;
    const folders = artifactFolders({ ...version, bundle: version.bundleDir }, dataDir);
    if (isStored && !isHere(folders)) continue;
    const built = { ...folders, python: needed };
    const fault = await versionFault(built, python, dataDir, containers);
    if (fault) faults.push({ name: `${app}, version ${number}`, isCurrent, fault });
  }
  // What serves comes first.
  const [first] = faults.toSorted((a, b) => Number(b.isCurrent) - Number(a.isCurrent));
  if (!first) {
    const { length } = report.versions;
    return [
      ok(
        "apps",
        length === 1
          ? "1 version has all it needs to start"
          : `${length} versions have all they need to start`,
      ),
    ];
  }
  const more = faults.length === 1 ? "" : `; ${faults.length - 1} more`;
  const message = `${first.name}: ${first.fault.message}${more}`;
  return [(first.isCurrent ? fail : warn)("apps", message, REMEDIES[first.fault.what])];
}
