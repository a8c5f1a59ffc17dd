import { lookup } from "node:dns/promises";
import { existsSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import type { Settings } from "../../../config/setting-keys.ts";
import { keyFileProblem, masterKeyPath, openMasterKey } from "../../../identity/master-key.ts";
import type { DatabaseReport } from "../../../store/upkeep/report.ts";
import { fail, type Finding, ok, warn } from "./finding.ts";

type KnownNode = NonNullable<DatabaseReport["nodes"]>[number];

const CONNECT_MS = 3_000;

/** The file with the master key is there, holds one, and is closed to others. */
export function checkMasterKey(settings: Settings): Finding {
  const check = "master key";
  const file = masterKeyPath(settings);
  const remedy = "copy master.key from another service of this installation, or from a backup";
  const problem = settings.masterKeyFile === null ? null : keyFileProblem(file);
  if (problem !== null) return fail(check, problem, remedy);
  if (!existsSync(file)) return ok(check, "none yet; the first start creates it");
  try {
    openMasterKey(settings);
  } catch (error) {
    return fail(check, (error as Error).message, remedy);
  }
  return ok(check, file);
}

/** The other nodes can reach this one, and it them, as far as can be seen from here. */
export async function checkNodes(settings: Settings, report: DatabaseReport | null): Promise<Finding[]> {
  const living = report?.nodes ?? [];
  const home = homeOf(settings.dataDir);
  const own = living.find((node) => node.home === home);
  const others = living.filter((node) => node !== own);
  return [await checkAddress(settings, own), await checkOthers(others)];
}

async function checkAddress({ databaseUrl, nodeUrl }: Settings, own?: KnownNode): Promise<Finding> {
  const check = "node address";
  if (databaseUrl === null) return ok(check, "not needed: a service on SQLite is alone");
  const url = own?.url ?? nodeUrl;
  if (url === null) return ok(check, "MILLRACE_NODE_URL is unset: only services of this machine can join");
  const problem = own ? await whyUnreached(url) : await whyUnknown(url);
  if (problem === null) return ok(check, own ? `${url} answers` : url);
  const remedy =
    "set MILLRACE_NODE_URL to an address of this machine that the other nodes reach, and open its port";
  return fail(check, `${url}: ${problem}`, remedy);
}

async function checkOthers(others: readonly KnownNode[]): Promise<Finding> {
  const check = "other nodes";
  if (others.length === 0) return ok(check, "none");
  const tried = await Promise.all(
    others.map(async (node) => ({ node, problem: await whyUnreached(node.url) })),
  );
  const lost = tried.filter(({ problem }) => problem !== null);
  if (lost.length === 0) return ok(check, `reached ${others.map(({ name }) => name).join(", ")}`);
  const told = lost.map(({ node, problem }) => `${node.name} at ${node.url}: ${problem}`).join("; ");
  const remedy = "open the port of each node to the others, and check MILLRACE_NODE_URL there";
  return fail(check, `could not reach ${told}`, remedy);
}

/** The id of the data directory; null before its first start. */
function homeOf(dataDir: string): string | null {
  try {
    return readFileSync(path.join(dataDir, "directory-id"), "utf8").trim();
  } catch {
    return null;
  }
}

/** Why an address takes no connections; null if it does. */
async function whyUnreached(url: string): Promise<string | null> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: bare(hostname), port: Number(port) });
  return await new Promise<string | null>((resolve) => {
    socket.setTimeout(CONNECT_MS, () => socket.destroy(new Error("it does not answer")));
    socket.once("connect", () => resolve(null)).once("error", ({ message }) => resolve(message));
  }).finally(() => socket.destroy());
}

/** Why a name does not resolve; null if it does. */
async function whyUnknown(url: string): Promise<string | null> {
  const found = lookup(bare(new URL(url).hostname)).then(() => null);
  return await found.catch((error: Error) => error.message);
}

function bare(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, "$1");
}

/** Not a valid app label, so that only a wildcard record resolves it. */
const PROBE = "millrace-doctor";

/** Checks that names below the domain of app hosts resolve. */
export async function checkAppHosts(
  { appHosts }: Pick<Settings, "appHosts">,
  lookUp: (name: string) => Promise<{ readonly address: string }> = lookup,
): Promise<Finding> {
  const check = "app hosts";
  if (appHosts === null) return ok(check, "none: all apps share the origin of the API");
  try {
    const { address } = await lookUp(`${PROBE}.${appHosts}`);
    return ok(check, `*.${appHosts} resolves to ${address}`);
  } catch (error) {
    const remedy = `add a DNS record for *.${appHosts} that leads to the app endpoints or to the proxy in front`;
    return warn(check, `*.${appHosts} does not resolve here: ${(error as Error).message}`, remedy);
  }
}
