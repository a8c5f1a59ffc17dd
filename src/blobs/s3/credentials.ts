import path from "node:path";
import type { Clock } from "../../kit/clock.ts";
import { readFile, stat } from "../../kit/files.ts";
import { type LentKeys, lentKeys } from "./lent-keys.ts";
import type { Keys } from "./sign.ts";

/** Keys that are lent are asked for again so long before they end. */
const EARLY_MS = 5 * 60_000;
/** A file of keys may be exchanged at any time. */
const FILE_MS = 60_000;
const MAX_FILE_BYTES = 256 * 1024;

const HOW =
  "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or put them into ~/.aws/credentials, or give the machine a role";

/**
 * The keys of an S3 store, looked for where every client of S3 does: the environment, the file of shared credentials, what
 * the container or the machine is lent. They are kept for as long as they hold.
 */
export class Credentials {
  readonly #env: NodeJS.ProcessEnv;
  readonly #clock: Clock;
  #kept: LentKeys | null = null;
  #asking: Promise<LentKeys> | null = null;

  constructor(env: NodeJS.ProcessEnv, clock: Clock) {
    this.#env = env;
    this.#clock = clock;
  }

  /** Throws where nobody gives any. */
  async keys(): Promise<Keys> {
    if (this.#kept && this.#clock.now() < this.#kept.endsAt - EARLY_MS) return this.#kept;
    // One question at a time, however many requests wait for it.
    this.#asking ??= this.#find().finally(() => (this.#asking = null));
    try {
      this.#kept = await this.#asking;
    } catch (error) {
      // Those that still hold are better than none.
      if (!this.#kept || this.#clock.now() >= this.#kept.endsAt) throw error;
    }
    return this.#kept;
  }

  /** The store has refused them: they are looked for again. */
  forget(): void {
    this.#kept = null;
  }

  async #find(): Promise<LentKeys> {
    const found = keysOfEnvironment(this.#env) ?? (await this.#keysOfFile()) ?? (await lentKeys(this.#env));
    if (found) return found;
    throw new Error(`there are no credentials for the blob store: ${HOW}`);
  }

  async #keysOfFile(): Promise<LentKeys | null> {
    const { AWS_SHARED_CREDENTIALS_FILE: named, AWS_PROFILE: profile, HOME = "/" } = this.#env;
    const file = named || path.join(HOME, ".aws", "credentials");
    const found = await stat(file).catch(() => null);
    const text = found?.isFile() && found.size <= MAX_FILE_BYTES ? await readFile(file, "utf8") : "";
    const keys = readProfile(text, profile || "default");
    if (keys) return { ...keys, endsAt: this.#clock.now() + EARLY_MS + FILE_MS };
    if (profile) throw new Error(`${file} has no keys for the profile ${JSON.stringify(profile)}: ${HOW}`);
    return null;
  }
}

function keysOfEnvironment(env: NodeJS.ProcessEnv): LentKeys | null {
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = env;
  if (!accessKeyId || !secretAccessKey) return null;
  const sessionToken = env["AWS_SESSION_TOKEN"] || null;
  return { accessKeyId, secretAccessKey, sessionToken, endsAt: Number.POSITIVE_INFINITY };
}

/** The keys of a profile in a file of shared credentials; null if it has none. */
function readProfile(text: string, profile: string): Keys | null {
  const members = new Map<string, string>();
  let isOurs = false;
  for (const line of text.split("\n").map((each) => each.trim())) {
    const section = /^\[(.*)\]$/.exec(line)?.[1]?.trim();
    if (section !== undefined) isOurs = section === profile;
    const at = line.indexOf("=");
    if (isOurs && at > 0 && !/^[#;]/.test(line))
      members.set(line.slice(0, at).trim().toLowerCase(), line.slice(at + 1).trim());
  }
  const accessKeyId = members.get("aws_access_key_id");
  const secretAccessKey = members.get("aws_secret_access_key");
  if (!accessKeyId || !secretAccessKey) return null;
  return { accessKeyId, secretAccessKey, sessionToken: members.get("aws_session_token") || null };
}
