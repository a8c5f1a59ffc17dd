import { findUv, probePip } from "../apps/builds/installer.ts";
import type { Settings } from "../config/setting-keys.ts";
import { hostPythons } from "../host/host-pythons.ts";
import { findInterpreter } from "../host/interpreter.ts";
import { lookAtLimits } from "../host/limits/find-limits.ts";
import { LIMITS, describeEnforced } from "../host/limits/limits.ts";
import type { Enforcement } from "../host/limits/limits.ts";
import { networkReport } from "../host/walls/network.ts";
import { findGap } from "../host/walls/require-network.ts";
import { probeRungs } from "../host/walls/probe.ts";
import { complaintAbout } from "../host/walls/require-rung.ts";
import { RUNGS, highestRung } from "../host/walls/rung.ts";
import { fail, ok, warn } from "./finding.ts";
import type { Finding } from "./finding.ts";

/** The same as `engines` in package.json. */
const OLDEST_NODE = [22, 18] as const;

/** The service runs on a Node that it was made for. */
export function checkNode(version: string): Finding {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const isOld = major < OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor < OLDEST_NODE[1]);
  if (isOld) return fail("node", `${version} is too old`, `install Node ${OLDEST_NODE.join(".")} or newer`);
  return ok("node", version);
}

/** Apps have an interpreter, those that ask for a version of their own have it, and builds can install packages. */
export async function checkPythons({ python }: Settings, env: NodeJS.ProcessEnv): Promise<Finding[]> {
  const searchPath = env["PATH"] ?? "";
  const found = await findInterpreter(python).catch((error: Error) => error);
  return [
    found instanceof Error
      ? fail("python", found.message, "install Python 3.9 or newer, or set MILLRACE_PYTHON")
      : ok("python", `${found.version} at ${found.path}`),
    await checkVersions(env),
    await checkPackages(found instanceof Error ? null : found.path, searchPath, env),
  ];
}

async function checkVersions(env: NodeJS.ProcessEnv): Promise<Finding> {
  const versions = (await hostPythons(env)).map(({ version }) => version);
  if (versions.length > 0) return ok("python versions", versions.join(", "));
  return warn(
    "python versions",
    "no other version, such as python3.12, was found",
    "if apps set python_version, install those versions, for example with: uv python install 3.12",
  );
}

async function checkPackages(
  python: string | null,
  searchPath: string,
  env: NodeJS.ProcessEnv,
): Promise<Finding> {
  const check = "packages";
  const variables = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, value ?? ""]));
  const uv = await findUv(searchPath, variables);
  if (uv !== null) return ok(check, `installed by ${uv}`);
  const { pip, bundled } = python === null ? { pip: null, bundled: null } : await probePip(python, variables);
  if (pip !== null) return ok(check, `installed by pip ${pip}`);
  if (bundled !== null) return ok(check, "installed by the pip that comes with Python");
  return warn(
    check,
    "neither uv nor pip is installed: each build downloads pip from the package index",
    "install uv, or pip for Python (on Debian: apt-get install python3-pip python3-venv)",
  );
}

/** What separates an app from the machine, and what this host could put between them. */
export async function checkSandbox({ isolation, python, dataDir, uidRange }: Settings): Promise<Finding> {
  const check = "sandbox";
  const care = "deploy only code that you would run yourself under this user; see SECURITY.md";
  const found = await findInterpreter(python).catch(() => null);
  const offer = found && (await probeRungs(found.path, dataDir, uidRange.first));
  const highest = offer && highestRung(offer);
  if (isolation === "auto" || isolation === "none") {
    const message = "none: an app can do whatever the service's user can";
    if (!highest) return warn(check, message, care);
    return warn(check, message, `set MILLRACE_ISOLATION=${highest}, which this host gives; or ${care}`);
  }
  const complaint = offer
    ? complaintAbout(isolation, offer)
    : `MILLRACE_ISOLATION=${isolation}, but there is no Python to do it`;
  if (complaint !== null) return fail(check, complaint, care);
  return ok(
    check,
    `${isolation}${highest && highest !== isolation ? ` (this host also gives ${highest})` : ""}`,
  );
}

/** Which limits apps are held to: those that the service found, where one runs; else those that are found from here. */
export async function checkLimits(settings: Settings, found: Enforcement | undefined): Promise<Finding> {
  const check = "limits";
  const { isolation } = settings;
  const rung = isolation === "auto" || isolation === "none" ? null : isolation;
  const enforcement = found ?? (await lookAtLimits(settings, rung));
  const remedies = new Set<string>();
  const told = LIMITS.map((name) => {
    const enforced = enforcement[name];
    const called = name.replace("_", " ");
    if (!("lacking" in enforced)) return `${called}: ${describeEnforced(enforced)}`;
    remedies.add(enforced.remedy);
    return `${called}: not enforced (${enforced.lacking})`;
  }).join("; ");
  return remedies.size === 0 ? ok(check, told) : warn(check, told, [...remedies].join(". "));
}

/** What of an app's `network` this host enforces, behind the level that is set. */
export async function checkNetwork(settings: Settings): Promise<Finding> {
  const { isolation, python } = settings;
  const check = "network";
  const found = await findInterpreter(python).catch(() => null);
  const rung = RUNGS.find((each) => each === isolation) ?? null;
  const gap = await findGap(rung, found?.path ?? python, settings);
  const { true: judged } = networkReport({ hasWalls: rung !== null, gap });
  if (gap === null)
    return ok(
      check,
      `${judged}: no app reaches the management API, metadata services or other apps' servers`,
    );
  return warn(
    check,
    judged,
    'apps can connect to whatever this machine can; `network = "egress"` is refused unless MILLRACE_NETWORK_UNENFORCED=warn',
  );
}
