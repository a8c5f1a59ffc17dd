import path from "node:path";
import type { Clock } from "../../kit/clock.ts";
import { readFile, stat } from "../../kit/files.ts";
import type { Keys } from "./sign.ts";
import { request } from "../../kit/node-http.ts";
import type { IncomingMessage } from "node:http";
import { request as secureRequest } from "node:https";
import { once } from "node:events";
import { z } from "zod";

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

/** Keys and until when they hold, in epoch milliseconds. */
type LentKeys = Keys & { readonly endsAt: number };

/** Whoever lends keys is on this machine, or next to it. */
const ANSWER_MS = 5_000;
/** On a machine that is nobody's cloud this is how long a start waits. */
const MACHINE_MS = 1_000;
const MAX_BYTES = 64 * 1024;
const CONTAINER = "http://169.254.170.2";
const MACHINE = "http://169.254.169.254";
const ROLES = "/latest/meta-data/iam/security-credentials/";
/** Where keys may be asked for without TLS: this machine, and what a cloud puts beside a container. */
const NEAR = /^(?:127\.\d+\.\d+\.\d+|localhost|\[::1\]|169\.254\.170\.(?:2|23)|\[fd00:ec2::23\])$/;

const LENT = z.object({
  AccessKeyId: z.string().min(1).max(256),
  SecretAccessKey: z.string().min(1).max(256),
  Token: z.string().max(16_384).optional(),
  Expiration: z.string().max(64).optional(),
});

/** The keys that the container or the machine is lent; null where there is none that lends. */
async function lentKeys(env: NodeJS.ProcessEnv): Promise<LentKeys | null> {
  return (await keysOfContainer(env)) ?? (await keysOfMachine(env));
}

async function keysOfContainer(env: NodeJS.ProcessEnv): Promise<LentKeys | null> {
  const below = env["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"];
  const whole = env["AWS_CONTAINER_CREDENTIALS_FULL_URI"];
  if (!below && !whole) return null;
  const url = new URL(below ? CONTAINER + below : (whole ?? ""));
  if (url.protocol !== "https:" && !NEAR.test(url.hostname))
    throw new Error("AWS_CONTAINER_CREDENTIALS_FULL_URI names neither this machine nor an https address");
  const file = env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"];
  const authorization = file
    ? (await readFile(file, "utf8")).trim()
    : env["AWS_CONTAINER_AUTHORIZATION_TOKEN"];
  return read(await ask(url, { headers: authorization ? { authorization } : {} }));
}

/** By version 2 of the machine's service: a token first. */
async function keysOfMachine(env: NodeJS.ProcessEnv): Promise<LentKeys | null> {
  if (env["AWS_EC2_METADATA_DISABLED"]?.toLowerCase() === "true") return null;
  const from = env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] || MACHINE;
  const ttl = { "x-aws-ec2-metadata-token-ttl-seconds": "300" };
  const token = await ask(new URL("/latest/api/token", from), {
    method: "PUT",
    headers: ttl,
    timeoutMs: MACHINE_MS,
  }).catch(() => null);
  if (token === null) return null;
  const headers = { "x-aws-ec2-metadata-token": token };
  const [role = ""] = (await ask(new URL(ROLES, from), { headers })).split("\n");
  return read(await ask(new URL(ROLES + encodeURIComponent(role.trim()), from), { headers }));
}

function read(text: string): LentKeys {
  const parsed = LENT.safeParse(parseJson(text));
  if (!parsed.success) throw new Error("whoever lends credentials for the blob store answered with none");
  const { AccessKeyId: accessKeyId, SecretAccessKey: secretAccessKey, Token, Expiration } = parsed.data;
  const endsAt = Expiration === undefined ? Number.POSITIVE_INFINITY : Date.parse(Expiration);
  if (Number.isNaN(endsAt)) throw new Error("credentials for the blob store end at no valid time");
  return { accessKeyId, secretAccessKey, sessionToken: Token || null, endsAt };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

type Question = {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly timeoutMs?: number;
};

async function ask(
  url: URL,
  { method = "GET", headers = {}, timeoutMs = ANSWER_MS }: Question,
): Promise<string> {
  const signal = AbortSignal.timeout(timeoutMs);
  const send = url.protocol === "https:" ? secureRequest : request;
  const asked = send(url, { method, headers, signal, agent: false });
  asked.end();
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  const body = await readBody(answer, MAX_BYTES);
  if (answer.statusCode === 200) return body.toString("utf8");
  throw new Error(`${url.origin} answered ${answer.statusCode} when asked for credentials of the blob store`);
}

/** All of an answer's body; throws, and lets go of the connection, when it is larger. */
export async function readBody(answer: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of answer as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > maxBytes) throw new Error("an answer of the blob store is too large");
    pieces.push(piece);
  }
  return Buffer.concat(pieces, bytes);
}
