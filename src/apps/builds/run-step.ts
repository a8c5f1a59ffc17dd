import path from "node:path";
import { runKept } from "../../host/run-kept.ts";
import type { KeptEnd, KeptProgram } from "../../host/run-kept.ts";
import { hostReads, namedPaths } from "../../host/walls/host-reads.ts";
import { networkFields } from "../../host/walls/network.ts";
import { mkdir } from "../../kit/files.ts";
import { PASSED_BY_NAME, PASSED_ON } from "./build-environment.ts";
import { cacheDir } from "./caches.ts";
import { pipSettingsFiles, readPipSettings } from "./pip-settings.ts";
import type { BuildSite } from "./site.ts";

/** What git and uv look for beside what pip does. */
const SETTINGS = ["/etc/gitconfig", "/etc/uv", "/etc/pip.conf", "/etc/xdg"];

type Step = Omit<KeptProgram, "walls" | "cwd"> & {
  /** Packages that it reads. */
  readonly environment?: string | null;
  /** A folder that it makes or changes, beyond the bundle. */
  readonly makes?: string | null;
};

/**
 * Runs one program of a build, in its bundle. Behind walls it may use the network, and writes nothing but the bundle,
 * what it makes, and its project's own cache of packages.
 */
export async function runStep(
  { environment = null, makes = null, ...step }: Step,
  site: BuildSite,
): Promise<KeptEnd> {
  const { walls, scratch, bundleDir, asideDir, dataDir, projectId, keeperPython, unixSockets, signal } = site;
  const cwd = bundleDir;
  if (walls === null || scratch === null)
    return await runKept(keeperPython, { ...step, cwd, walls: null }, signal);
  const cache = cacheDir(dataDir, projectId);
  await mkdir(cache, { recursive: true, mode: 0o700 });
  const reach = {
    folders: { bundle: bundleDir, environment, storage: null },
    scratch,
    // Programs that the app's Python brings come first on the path of its commands.
    reads: [
      step.program,
      asideDir,
      ...hostReads({ ...site.host, PATH: step.env["PATH"] }, dataDir),
      ...(await settingsOf(site)),
    ],
    writes: [bundleDir, cache, ...(makes === null ? [] : [makes])],
    // What is private may be the host's own index of packages.
    network: networkFields(true, { ...walls.network, egressOnly: false }),
    unixSockets,
  };
  // What it makes is the service's: its project's user could change it afterwards.
  const host = { ...walls, rung: walls.rung === "uid" ? "userns" : walls.rung } as const;
  return await runKept(keeperPython, { ...step, cwd, walls: { host, reach } }, signal);
}

/** The host's settings of installers, and the files that those name: certificates, folders of wheels. */
async function settingsOf({ host, dataDir }: BuildSite): Promise<string[]> {
  const passed = Object.entries(host).filter(
    ([name]) => PASSED_ON.test(name) || PASSED_BY_NAME.includes(name),
  );
  const { findLinks, cert } = await readPipSettings(host);
  const values = [...passed.map(([, value]) => value ?? ""), ...findLinks, cert];
  const config = host["XDG_CONFIG_HOME"] ?? path.join(host["HOME"] ?? "/", ".config");
  return [
    ...SETTINGS,
    ...pipSettingsFiles(host),
    ...["pip", "uv", "git"].map((name) => path.join(config, name)),
    ...namedPaths(values, host, dataDir),
  ];
}
