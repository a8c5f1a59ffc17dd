import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { request as secureRequest } from "node:https";
import path from "node:path";
import { z } from "zod";
import type { Clock } from "../../kit/clock.ts";
import { readFile, stat } from "../../kit/files.ts";
import { request } from "../../kit/node-http.ts";
import { element, readBody } from "./answers.ts";
import type { Keys } from "./sign.ts";

type LentKeys = Keys & { /** In epoch milliseconds. */ readonly endsAt: number };
/** Keys, or why this source has none. A source that is configured and fails throws. */
type Found = LentKeys | string;

/** Temporary keys are replaced this long before they expire. */
const EARLY_MS = 5 * 60_000;
/** After a failed refresh, keys that are still valid are used this long without another. */
const RETRY_MS = 30_000;
/** A credentials file may be replaced at any time. */
const FILE_MS = 60_000;
const MAX_FILE_BYTES = 256 * 1024;
const ANSWER_MS = 5_000;
/** Outside of a cloud, each start waits this long. */
const MACHINE_MS = 1_000;
const MAX_BYTES = 64 * 1024;
const CONTAINER = "http://169.254.170.2";
const MACHINE = "http://169.254.169.254";
const ROLES = "/latest/meta-data/iam/security-credentials/";
/** Hosts that may be asked for keys without TLS: this machine, and the agents of ECS and of EKS Pod Identity. */
const NEAR = /^(?:127\.\d+\.\d+\.\d+|localhost|\[::1\]|169\.254\.170\.(?:2|23)|\[fd00:ec2::23\])$/;

const HOW =
  "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or put them into ~/.aws/credentials, or give the service or the machine a role";

const LENT = z.object({
  AccessKeyId: z.string().min(1).max(256),
  SecretAccessKey: z.string().min(1).max(256),
  Token: z.string().max(16_384).nullish(),
  Expiration: z.string().max(64).nullish(),
});

/** The keys of an S3 store, from the same sources and in the same order as in AWS's own clients. */
export class Credentials {
  readonly #env: NodeJS.ProcessEnv;
  readonly #clock: Clock;
  #kept: LentKeys | null = null;
  #refreshAt = Number.NEGATIVE_INFINITY;
  #asking: Promise<LentKeys> | null = null;

  constructor(env: NodeJS.ProcessEnv, clock: Clock) {
    this.#env = env;
    this.#clock = clock;
  }

  /** Throws if no source has any, and says what was tried. */
  async keys(): Promise<Keys> {
    if (this.#kept && this.#clock.now() < this.#refreshAt) return this.#kept;
    // One refresh at a time, however many requests wait for it.
    this.#asking ??= this.#find().finally(() => (this.#asking = null));
    try {
      this.#kept = await this.#asking;
      this.#refreshAt = this.#kept.endsAt - EARLY_MS;
    } catch (error) {
      const now = this.#clock.now();
      if (!this.#kept || now >= this.#kept.endsAt) throw error;
      this.#refreshAt = Math.min(now + RETRY_MS, this.#kept.endsAt);
    }
    return this.#kept;
  }

  /** After the store refused the keys: the next request looks for them again. */
  forget(): void {
    this.#kept = null;
  }

  async #find(): Promise<LentKeys> {
    const tried: string[] = [];
    for (const source of [keysOfEnvironment, keysOfFile, keysOfWebIdentity, keysOfContainer, keysOfMachine]) {
      const found = await source(this.#env, this.#clock.now());
      if (typeof found !== "string") return found;
      tried.push(found);
    }
    throw new Error(`there are no credentials for the blob store: ${HOW} (${tried.join("; ")})`);
  }
}

function keysOfEnvironment(env: NodeJS.ProcessEnv): Found {
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = env;
  if (!accessKeyId || !secretAccessKey) return "AWS_ACCESS_KEY_ID is not set";
  const sessionToken = env["AWS_SESSION_TOKEN"] || null;
  return { accessKeyId, secretAccessKey, sessionToken, endsAt: Number.POSITIVE_INFINITY };
}

async function keysOfFile(env: NodeJS.ProcessEnv, now: number): Promise<Found> {
  const { AWS_SHARED_CREDENTIALS_FILE: named, AWS_PROFILE: profile, HOME = "/" } = env;
  const file = named || path.join(HOME, ".aws", "credentials");
  const found = await stat(file).catch(() => null);
  const text = found?.isFile() && found.size <= MAX_FILE_BYTES ? await readFile(file, "utf8") : "";
  const keys = readProfile(text, profile || "default");
  if (keys) return { ...keys, endsAt: now + EARLY_MS + FILE_MS };
  const problem = `${file} has no keys for the profile ${JSON.stringify(profile || "default")}`;
  if (profile) throw new Error(`${problem}: ${HOW}`);
  return problem;
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

/** Keys of a role that STS gives for a token, such as that of a Kubernetes service account. */
async function keysOfWebIdentity(env: NodeJS.ProcessEnv): Promise<Found> {
  const { AWS_WEB_IDENTITY_TOKEN_FILE: file, AWS_ROLE_ARN: role } = env;
  if (!file || !role) return `${file ? "AWS_ROLE_ARN" : "AWS_WEB_IDENTITY_TOKEN_FILE"} is not set`;
  const region = env["AWS_REGION"] || env["AWS_DEFAULT_REGION"] || "us-east-1";
  const suffix = region.startsWith("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  const url = new URL(env["AWS_ENDPOINT_URL_STS"] || `https://sts.${region}.${suffix}`);
  const form = new URLSearchParams({
    Action: "AssumeRoleWithWebIdentity",
    Version: "2011-06-15",
    RoleArn: role,
    RoleSessionName: env["AWS_ROLE_SESSION_NAME"] || "millrace",
    // The file is read each time: its token is replaced before it expires.
    WebIdentityToken: await readToken(file, "AWS_WEB_IDENTITY_TOKEN_FILE"),
  });
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  const answer = await ask(url, { method: "POST", headers, body: form.toString() });
  const members = ["AccessKeyId", "SecretAccessKey", "Expiration"].map((name) => [
    name,
    element(answer, name),
  ]);
  return lent({ ...Object.fromEntries(members), Token: element(answer, "SessionToken") }, url);
}

async function keysOfContainer(env: NodeJS.ProcessEnv): Promise<Found> {
  const below = env["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"];
  const whole = env["AWS_CONTAINER_CREDENTIALS_FULL_URI"];
  if (!below && !whole) return "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and _FULL_URI are not set";
  const url = new URL(below ? CONTAINER + below : (whole ?? ""));
  if (url.protocol !== "https:" && !NEAR.test(url.hostname))
    throw new Error("AWS_CONTAINER_CREDENTIALS_FULL_URI names neither this machine nor an https address");
  const file = env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"];
  const authorization = file
    ? await readToken(file, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    : env["AWS_CONTAINER_AUTHORIZATION_TOKEN"];
  return lent(parseJson(await ask(url, { headers: authorization ? { authorization } : {} })), url);
}

/** By version 2 of the instance metadata service: a token first. */
async function keysOfMachine(env: NodeJS.ProcessEnv): Promise<Found> {
  if (env["AWS_EC2_METADATA_DISABLED"]?.toLowerCase() === "true") return "AWS_EC2_METADATA_DISABLED is true";
  const from = env["AWS_EC2_METADATA_SERVICE_ENDPOINT"] || MACHINE;
  const ttl = { "x-aws-ec2-metadata-token-ttl-seconds": "300" };
  const asked = { method: "PUT", headers: ttl, timeoutMs: MACHINE_MS };
  const token = await ask(new URL("/latest/api/token", from), asked).catch(() => null);
  if (token === null) return `no instance metadata service answers at ${from}`;
  const headers = { "x-aws-ec2-metadata-token": token };
  const [role = ""] = (await ask(new URL(ROLES, from), { headers })).split("\n");
  const url = new URL(ROLES + encodeURIComponent(role.trim()), from);
  return lent(parseJson(await ask(url, { headers })), url);
}

async function readToken(file: string, setting: string): Promise<string> {
  try {
    return (await readFile(file, "utf8")).trim();
  } catch (error) {
    throw new Error(`the file that ${setting} names cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

function lent(answer: unknown, { origin }: URL): LentKeys {
  const { data } = LENT.safeParse(answer);
  const endsAt = data?.Expiration ? Date.parse(data.Expiration) : Number.POSITIVE_INFINITY;
  if (!data || Number.isNaN(endsAt)) throw new Error(`${origin} answered without valid credentials`);
  const { AccessKeyId: accessKeyId, SecretAccessKey: secretAccessKey, Token } = data;
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
  readonly body?: string;
  readonly timeoutMs?: number;
};

async function ask(url: URL, { method = "GET", headers = {}, body, timeoutMs = ANSWER_MS }: Question) {
  const signal = AbortSignal.timeout(timeoutMs);
  const send = url.protocol === "https:" ? secureRequest : request;
  const asked = send(url, { method, headers, signal, agent: false });
  asked.end(body);
  try {
    const [answer] = (await once(asked, "response")) as [IncomingMessage];
    const text = (await readBody(answer, MAX_BYTES)).toString("utf8");
    if (answer.statusCode === 200) return text;
    const words = [element(text, "Code"), element(text, "Message")].filter((word) => word !== null);
    throw new Error(`it answered ${[answer.statusCode, ...words].join(": ").slice(0, 500)}`);
  } catch (error) {
    const why = signal.aborted ? `no answer within ${timeoutMs / 1000} s` : messageOf(error);
    const message = `${url.origin} gave no credentials for the blob store: ${why}`;
    // The client recognises a transient error of the network by its code, and retries.
    throw Object.assign(new Error(message, { cause: error }), {
      code: (error as NodeJS.ErrnoException).code,
    });
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
