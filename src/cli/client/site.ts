import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { askService } from "../ask-service.ts";
import { CliFailure, usage } from "../failure.ts";

/** The service a command talks to, and as whom. */
export type Site = {
  readonly baseUrl: string;
  readonly apiUrl: string | null;
  readonly project: string | null;
  readonly token: string | null;
  readonly refreshToken?: string | undefined;
  /** Where the token was found, as a person would say it. */
  readonly tokenSource: string;
  /** The file that holds it, if it came from a file. */
  readonly tokenFile?: string | undefined;
};

export type SiteFlags = { readonly url?: string; readonly project?: string; readonly dataDir?: string };

type Local = Omit<Site, "tokenSource"> & { readonly tokenFile: string };
type Environment = Readonly<Record<string, string | undefined>>;

const DATA_DIR = ".millrace";
const TOKEN_FILE = "owner-token";
/** Where `millrace dev` keeps its data. */
export const DEV_DATA_DIR = ".millrace-dev";

/** The default addresses of a service. */
export const USUAL = { baseUrl: "http://127.0.0.1:4100", apiUrl: "http://127.0.0.1:4000" };

/**
 * Finds the service and the token: flags, then the environment, then the profile, then a service of this folder. With
 * a data directory it is the service that runs on that one, whatever else is set.
 */
export async function findSite(flags: SiteFlags, env: Environment = process.env): Promise<Site> {
  if (flags.dataDir !== undefined) return await siteOf(flags.dataDir, flags);
  const profiles = readProfiles();
  const given = flags.url ?? env["MILLRACE_URL"] ?? profiles.current;
  const named = given ? checkedUrl(given) : null;
  const profile = profiles.servers[named ?? ""] ?? {};
  // Asked only if it can matter: for most commands, flags and variables say enough.
  const isSettled = named !== null && Boolean(env["MILLRACE_TOKEN"] ?? profile.token);
  const locals = isSettled ? [] : await findLocals(env);
  // The owner's token is for the service it came from and for no other.
  const own = locals.find(({ baseUrl }) => named === null || named === baseUrl) ?? null;
  const baseUrl = named ?? own?.baseUrl ?? USUAL.baseUrl;
  return {
    baseUrl,
    apiUrl: env["MILLRACE_API_URL"] ?? profile.apiUrl ?? own?.apiUrl ?? besides(baseUrl),
    ...tokenOf(env, profile, own),
    project: flags.project ?? env["MILLRACE_PROJECT"] ?? profile.project ?? own?.project ?? null,
  };
}

async function siteOf(dataDir: string, { url, project }: SiteFlags): Promise<Site> {
  if (url !== undefined) throw usage("--data-dir and --url each name a service; give one of them");
  const local = await askLocal(path.resolve(dataDir));
  if (!local) {
    throw new CliFailure(`no service runs on the data directory ${dataDir}`, {
      code: "unreachable",
      hint: `start one with millrace serve --data-dir ${dataDir}`,
    });
  }
  return { ...local, project: project ?? local.project, tokenSource: dataDir };
}

/** The address in the form that profiles are stored by; throws if it is not the address of a service. */
export function checkedUrl(text: string): string {
  const url = URL.parse(text.includes("://") ? text : `http://${text}`);
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash || url.username) {
    const problem = `${JSON.stringify(text)} is not the address of a service`;
    throw usage(problem, "such as https://millrace.example.com");
  }
  return `${url.origin}${url.pathname}`.replace(/\/+$/, "");
}

function tokenOf(
  env: Environment,
  { token, refreshToken }: Profile,
  own: Local | null,
): Pick<Site, "token" | "refreshToken" | "tokenSource" | "tokenFile"> {
  const { MILLRACE_TOKEN: set } = env;
  if (set) return { token: set.trim(), tokenSource: "MILLRACE_TOKEN" };
  if (token) return { token, refreshToken, tokenSource: "millrace login" };
  if (own?.token) return { token: own.token, tokenSource: "this folder's service", tokenFile: own.tokenFile };
  return { token: null, tokenSource: "nowhere" };
}

/** The service on this folder's data directory, and the one that `millrace dev` runs here. */
async function findLocals(env: Environment): Promise<Local[]> {
  const named = env["MILLRACE_DATA_DIR"];
  const dirs = (named ? [named] : [DATA_DIR, DEV_DATA_DIR]).map((dir) => path.resolve(dir));
  const up = (await Promise.all(dirs.map(askLocal))).filter((local) => local !== null);
  return up.length > 0 ? up : dirs.map(leftToken).filter((local) => local !== null);
}

async function askLocal(dataDir: string): Promise<Local | null> {
  const asked = await askService(dataDir, "bootstrap").catch(() => null);
  if (!asked) return null;
  const { baseUrl, apiUrl, token, projectId } = asked.result as Local & { projectId: string };
  return { baseUrl, apiUrl, token, project: projectId, tokenFile: path.join(dataDir, TOKEN_FILE) };
}

/** Where no control socket answers, as from another container, the token in the directory is still good. */
function leftToken(dataDir: string): Local | null {
  try {
    const tokenFile = path.join(dataDir, TOKEN_FILE);
    const token = readFileSync(tokenFile, "utf8").trim();
    return { ...USUAL, token, project: claimsOf(token).project_id ?? null, tokenFile };
  } catch {
    return null;
  }
}

/** The claims of a token; nothing if it is not a JWT. Only the service can tell whether they are true. */
export function claimsOf(token: string): { project_id?: string; role?: string; exp?: number; sub?: string } {
  try {
    return JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as object;
  } catch {
    return {};
  }
}

/** With the usual management port, the apps are at their usual port too; otherwise their address is unknown. */
function besides(baseUrl: string): string | null {
  const url = new URL(baseUrl);
  if (url.port !== "4100") return null;
  url.port = "4000";
  return url.origin;
}

/** What is stored about one server. */
export type Profile = {
  /** Where its apps are called, when it is not known from the address. */
  readonly apiUrl?: string;
  readonly project?: string;
  readonly token?: string;
  /** Of a person who signed in; gets a new token when that one has expired. */
  readonly refreshToken?: string;
};

/** Every server that the user has signed in to, by its management address. */
type Profiles = { readonly current: string | null; readonly servers: Readonly<Record<string, Profile>> };

function profilesPath(): string {
  const config = process.env["XDG_CONFIG_HOME"] || path.join(homedir(), ".config");
  return path.join(config, "millrace", "profiles.json");
}

/** The stored profiles; none when there is no file yet. */
export function readProfiles(): Profiles {
  const file = profilesPath();
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return { current: null, servers: {} };
    throw new CliFailure(`${file} cannot be read: ${(error as Error).message}`);
  }
  try {
    const { current = null, servers } = JSON.parse(text) as Partial<Profiles>;
    if (typeof servers === "object" && servers !== null) return { current, servers };
  } catch {
    // Told below.
  }
  throw new CliFailure(`${file} was not written by millrace`, { hint: "remove it, then millrace login" });
}

/** Stores the profiles for their owner alone, whole or not at all. */
function writeProfiles(profiles: Profiles): void {
  const file = profilesPath();
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  const aside = `${file}.${randomBytes(4).toString("hex")}`;
  writeFileSync(aside, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600 });
  chmodSync(aside, 0o600); // A umask takes away and never adds, but the file may not be readable to others.
  renameSync(aside, file);
}

/** Changes what is stored about one server; null removes it. */
export function changeProfile(url: string, change: Profile | null, isCurrent = false): void {
  const { current, servers } = readProfiles();
  const { [url]: before, ...others } = servers;
  if (change === null) writeProfiles({ current: current === url ? null : current, servers: others });
  else {
    const changed = { ...others, [url]: { ...before, ...change } };
    writeProfiles({ current: isCurrent ? url : current, servers: changed });
  }
}
