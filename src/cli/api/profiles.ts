import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { CliFailure } from "../failure.ts";

/** What is kept of one server. */
export type Profile = {
  /** Where its apps are called, when it is not known from the address. */
  readonly apiUrl?: string;
  readonly project?: string;
  readonly token?: string;
  /** Of a person who signed in; gets a new token when that one is over. */
  readonly refreshToken?: string;
};

/** Every server somebody has signed in to, by its management address. */
export type Profiles = {
  readonly current: string | null;
  readonly servers: Readonly<Record<string, Profile>>;
};

const NONE: Profiles = { current: null, servers: {} };

/** The file that holds the profiles: for its owner alone. */
export function profilesPath(env: NodeJS.ProcessEnv = process.env): string {
  const config = env["XDG_CONFIG_HOME"] || path.join(homedir(), ".config");
  return path.join(config, "millrace", "profiles.json");
}

/** The profiles as they are kept; none when there is no file yet. */
export function readProfiles(file = profilesPath()): Profiles {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return NONE;
    throw new CliFailure(`${file} cannot be read: ${(error as Error).message}`);
  }
  const read = parse(text);
  if (read === null) {
    throw new CliFailure(`${file} was not written by millrace`, {
      hint: "remove it, then millrace login",
    });
  }
  return read;
}

/** Keeps the profiles, whole or not at all. */
export function writeProfiles(profiles: Profiles, file = profilesPath()): void {
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  const aside = `${file}.${randomBytes(4).toString("hex")}`;
  writeFileSync(aside, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600 });
  chmodSync(aside, 0o600); // A umask takes away and never adds, but the file may not be readable to others.
  renameSync(aside, file);
}

/** Changes what is kept of one server; null forgets it. */
export function changeProfile(url: string, change: Profile | null, isCurrent = false): void {
  const { current, servers } = readProfiles();
  const { [url]: before, ...others } = servers;
  if (change === null) {
    writeProfiles({ current: current === url ? null : current, servers: others });
    return;
  }
  const changed = { ...others, [url]: { ...before, ...change } };
  writeProfiles({ current: isCurrent ? url : current, servers: changed });
}

function parse(text: string): Profiles | null {
  try {
    const { current = null, servers } = JSON.parse(text) as Partial<Profiles>;
    return typeof servers === "object" && servers !== null ? { current, servers } : null;
  } catch {
    return null;
  }
}
