import { request } from "node:http";
import type { IncomingMessage } from "node:http";
import { request as secureRequest } from "node:https";
import { once } from "node:events";
import { z } from "zod";
import { readFile } from "../../kit/files.ts";
import { readBody } from "./read-body.ts";
import type { Keys } from "./sign.ts";

/** Keys and until when they hold, in epoch milliseconds. */
export type LentKeys = Keys & { readonly endsAt: number };

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
export async function lentKeys(env: NodeJS.ProcessEnv): Promise<LentKeys | null> {
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
