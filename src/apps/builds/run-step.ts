import { totalmem } from "node:os";
import path from "node:path";
import { type Program, type ProgramEnd, runProgram } from "../../engines/programs/run-program.ts";
import { hostReads, namedPaths } from "../../host/walls/host-reads.ts";
import { networkFields } from "../../host/walls/network.ts";
import { makeCache, PASSED_BY_NAME, PASSED_ON } from "./build-environment.ts";
import { pipSettingsFiles, readPipSettings } from "./pip-settings.ts";
import type { BuildSite } from "./site.ts";

/** What git and uv look for beside what pip does. */
const SETTINGS = ["/etc/gitconfig", "/etc/uv", "/etc/pip.conf", "/etc/xdg"];

/** A step may use most of the host's memory, for compilers need much, and never all. */
const LIMITS = { memoryBytes: Math.floor(totalmem() * 0.75), cpus: null, cpuShare: 1 };

type Step = Omit<Program, "walls" | "cwd" | "held"> & {
  /** Packages that it reads. */
  readonly environment?: string | null;
  /** A folder that it makes or changes, beyond the bundle. */
  readonly makes?: string | null;
  /** Texts that it finds beside the bundle, in a remote seat. */
  readonly files?: Readonly<Record<string, string>>;
};

/** Runs a program of a build in its bundle. Behind walls it writes only the bundle, what it makes and the project's cache. */
export async function runStep(
  { environment = null, makes = null, files = {}, ...step }: Step,
  site: BuildSite,
): Promise<ProgramEnd> {
  if (site.seat) return await site.seat.run({ ...step, files });
  const { walls, limits, user, scratch, bundleDir: cwd, asideDir, dataDir, projectId, signal } = site;
  const folders = { scratch: scratch === null ? [] : [scratch], storage: null };
  const held = limits && { host: limits, limits: LIMITS, folders };
  if (walls === null || scratch === null)
    return await runProgram(site.python.path, { ...step, cwd, walls: null, held }, signal);
  const cache = await makeCache(dataDir, projectId, user);
  const reach = {
    folders: { bundle: cwd, environment, storage: null },
    scratch,
    // Not the program itself: an environment's may be a link to what is another project's.
    python: site.appPython,
    reads: [asideDir, ...hostReads(site.host, dataDir), ...(await settingsOf(site))],
    writes: [cwd, cache, ...(makes === null ? [] : [makes])],
    // A private address may be the host's own package index.
    network: networkFields(true, { ...walls.network, egressOnly: false }),
    unixSockets: site.config.deployment.unixSockets,
  };
  const host = { ...walls, user };
  return await runProgram(site.python.path, { ...step, cwd, walls: { host, reach }, held }, signal);
}

/** The host's settings of installers, and the files that those name: certificates, folders of wheels. */
async function settingsOf({ host, dataDir }: BuildSite): Promise<string[]> {
  const passed = Object.keys(host).filter((name) => PASSED_ON.test(name) || PASSED_BY_NAME.includes(name));
  const { findLinks, cert } = await readPipSettings(host);
  const values = [...passed.map((name) => host[name] ?? ""), ...findLinks, cert];
  const config = host["XDG_CONFIG_HOME"] ?? path.join(host["HOME"] ?? "/", ".config");
  return [
    ...SETTINGS,
    ...pipSettingsFiles(host),
    ...["pip", "uv", "git"].map((name) => path.join(config, name)),
    ...namedPaths(values, host, dataDir),
  ];
}
