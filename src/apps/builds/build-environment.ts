import path from "node:path";
import { appEnvironment } from "../../host/app-environment.ts";
import { readPipSettings } from "./pip-settings.ts";
import type { BuildSite } from "./site.ts";
import { randomUUID } from "node:crypto";
import { lchownSync, mkdirSync, renameSync, statSync } from "node:fs";
import { readdir, utimes } from "../../kit/files.ts";
import { removeTree } from "../../kit/remove-tree.ts";

/** Beyond what replicas see: the host's choice of index, proxy and certificates. */
export const PASSED_ON = /^(PIP|UV)_|^(HTTPS?|ALL|NO)_PROXY$/i;
export const PASSED_BY_NAME: readonly string[] = ["REQUESTS_CA_BUNDLE", "XDG_CONFIG_HOME"];
/** These would send packages elsewhere than into the app's environment. */
const NEVER = /^PIP_(USER|TARGET|PREFIX|ROOT|PYTHON)$|^UV_(PYTHON|TARGET|PREFIX|SYSTEM_PYTHON)$/;

/** The environment of a build's programs. `bin` comes first on their path; `environment` has packages that they may change. */
export function buildEnvironment(
  { host, dataDir, projectId, scratch }: Pick<BuildSite, "host" | "dataDir" | "projectId" | "scratch">,
  bin: string,
  environment: string | null,
): Record<string, string> {
  const cache = cacheDir(dataDir, projectId);
  const home = host["HOME"];
  const passed: Record<string, string> = {};
  for (const [name, value] of Object.entries(host)) {
    if (value === undefined || NEVER.test(name)) continue;
    if (PASSED_ON.test(name) || PASSED_BY_NAME.includes(name)) passed[name] = value;
  }
  return appEnvironment(host, {
    ...(scratch !== null && { HOME: scratch, TMPDIR: scratch }),
    // The service's own home is out of reach; only its installers' settings are not.
    ...(scratch !== null && home !== undefined && { XDG_CONFIG_HOME: path.join(home, ".config") }),
    ...passed,
    // Another project's build could have put anything into the service user's own.
    PIP_CACHE_DIR: path.join(cache, "pip"),
    UV_CACHE_DIR: path.join(cache, "uv"),
    // A link would let a later build change, in the cache, what this one has made.
    UV_LINK_MODE: "copy",
    PATH: host["PATH"] ? `${bin}${path.delimiter}${host["PATH"]}` : bin,
    ...unattended(environment),
    ...(host["PIP_CERT"] && { SSL_CERT_FILE: host["PIP_CERT"] }),
  });
}

/** What all installers and commands get, for packages that they may change, or for none. */
function unattended(environment: string | null): Record<string, string> {
  return {
    // A prompt would wait for an answer for ever.
    GIT_TERMINAL_PROMPT: "0",
    PIP_NO_INPUT: "1",
    PIP_DISABLE_PIP_VERSION_CHECK: "1",
    // A file of the host's may say `user = true`.
    PIP_USER: "0",
    // A pip that is not the environment's own must not change the host.
    PIP_REQUIRE_VIRTUALENV: "1",
    // uv goes by the first, a pip that is not the environment's own by the second.
    ...(environment !== null && {
      VIRTUAL_ENV: environment,
      PIP_PYTHON: path.join(environment, "bin", "python"),
    }),
  };
}

/** The same in a remote seat: this host's choice of index and proxies, but none of its files. */
export async function remoteEnvironment(
  host: NodeJS.ProcessEnv,
  bin: string,
  environment: string | null,
): Promise<Record<string, string>> {
  const { indexUrl, extraIndexUrls, findLinks, noIndex, trustedHosts } = await readPipSettings(host);
  const links = findLinks.filter((link) => /^https?:/i.test(link));
  const passed: Record<string, string> = {};
  for (const [name, value = ""] of Object.entries(host))
    if (PASSED_ON.test(name) && !NEVER.test(name) && !OF_THIS_HOST.test(name) && !value.startsWith("/"))
      passed[name] = value;
  return {
    ...passed,
    ...(indexUrl !== null && { PIP_INDEX_URL: indexUrl }),
    ...(extraIndexUrls.length > 0 && { PIP_EXTRA_INDEX_URL: extraIndexUrls.join(" ") }),
    ...(links.length > 0 && { PIP_FIND_LINKS: links.join(" ") }),
    ...(noIndex && { PIP_NO_INDEX: "1" }),
    ...(trustedHosts.length > 0 && { PIP_TRUSTED_HOST: trustedHosts.join(" ") }),
    // The seat is gone after the build.
    PIP_NO_CACHE_DIR: "1",
    PATH: bin,
    ...unattended(environment),
  };
}

/** These name files or folders of this host. */
const OF_THIS_HOST = /^PIP_(FIND_LINKS|CACHE_DIR|CONFIG_FILE|CERT|CLIENT_CERT|CONSTRAINT|REQUIREMENT)$|^UV_/i;

/** A cache that is no project's. */
const HOST_CACHE = "host";

/** For what a build runs outside its walls: nothing that a build has written decides what Python or uv runs. */
export function hostEnvironment(site: Pick<BuildSite, "host" | "dataDir">): Record<string, string> {
  const { host, dataDir } = site;
  return buildEnvironment({ host, dataDir, projectId: HOST_CACHE, scratch: null }, "/usr/bin", null);
}

/** Where installers keep what they have fetched or built for a project. What it holds is as good as the project's code. */
export function cacheDir(dataDir: string, projectId: string): string {
  return path.join(dataDir, "caches", projectId);
}

/** Makes a cache for a user, null for the service's own. One that was another user's, as on another isolation level, goes. */
export async function makeCache(dataDir: string, projectId: string, user: number | null): Promise<string> {
  const cache = cacheDir(dataDir, projectId);
  const owner = user ?? process.getuid?.() ?? 0;
  const found = statSync(cache, { throwIfNoEntry: false });
  const old = found && found.uid !== owner ? `${cache}-${randomUUID()}` : null;
  // At once: another build of the project that begins now must not find it half made, or half removed.
  if (old !== null) renameSync(cache, old);
  mkdirSync(cache, { recursive: true, mode: 0o700 });
  if (user !== null) lchownSync(cache, user, user);
  if (old !== null) await removeTree(old);
  return cache;
}

/** Keeps a project's cache from being swept for a while. */
export async function touchCache(dataDir: string, projectId: string): Promise<void> {
  const now = new Date();
  await utimes(cacheDir(dataDir, projectId), now, now).catch(() => undefined);
}

/** Removes caches that no build has wanted for so long. */
export async function sweepCaches(dataDir: string, keepMs: number, now = Date.now()): Promise<void> {
  const root = path.join(dataDir, "caches");
  for (const name of await readdir(root).catch(() => [])) {
    const folder = path.join(root, name);
    const wantedAt = statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? now;
    // One that a build still writes to must not keep the others from being removed.
    if (now - wantedAt >= keepMs) await removeTree(folder).catch(() => undefined);
  }
}
