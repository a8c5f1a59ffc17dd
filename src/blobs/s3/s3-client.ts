import { createHash } from "node:crypto";
import { once } from "node:events";
import { Agent, request } from "../../kit/node-http.ts";
import type { IncomingMessage } from "node:http";
import { Agent as SecureAgent, request as secureRequest } from "node:https";
import type { BlobAddress } from "../../config/blob-address.ts";
import { backoffMs } from "../../kit/retry.ts";
import { type Clock, pause } from "../../kit/clock.ts";
import { element, readBody } from "./answers.ts";
import { Credentials } from "./credentials.ts";
import { encodePath, encodeQuery, sign, type Unsigned } from "./sign.ts";

/** A store that sends nothing for this long counts as lost. */
const SILENCE_MS = 30_000;
const MAX_TRIES = 5;
const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 5_000;
/** A page of 1,000 names has half a mebibyte. */
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;
const MAX_CONNECTIONS = 16;
/** Transient statuses. */
const TRANSIENT = new Set([408, 409, 429, 500, 502, 503, 504]);
/** The codes of a store for expired keys. */
const ENDED = new Set(["ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired"]);

export type S3Address = Extract<BlobAddress, { kind: "s3" }>;

/** A request; its body is in memory, so that it can be sent again. */
type S3Request = {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  /** The object's key; empty for the bucket. */
  readonly key: string;
  readonly query?: Unsigned["query"];
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
  readonly signal?: AbortSignal | undefined;
};

type S3Answer = Readonly<{ status: number; headers: IncomingMessage["headers"]; body: Buffer }>;

/** The store refused a request. */
export class S3Error extends Error {
  readonly status: number;
  /** The store's own code, such as `AccessDenied`; empty if it sent none. */
  readonly code: string;

  constructor(place: string, { method }: S3Request, { status, body }: S3Answer) {
    const text = body.toString("utf8");
    const code = element(text, "Code") ?? "";
    const words = [code, element(text, "Message") ?? ""].filter((word) => word !== "").join(": ");
    super(`${place} refused ${method} with ${status}${words === "" ? "" : ` (${words.slice(0, 500)})`}`);
    this.name = "S3Error";
    this.status = status;
    this.code = code.slice(0, 100);
  }
}

/** The origin of the requests for a bucket, and the prefix of their paths. */
export function locate({ bucket, endpoint, isPathStyle }: S3Address, region: string) {
  const origin = new URL(endpoint ?? `https://s3.${region}.amazonaws.com`);
  if (isPathStyle) return { origin, folder: `/${bucket}/` };
  origin.host = `${bucket}.${origin.host}`;
  return { origin, folder: "/" };
}

/** Sends signed requests to one bucket, with time limits, and retries transient failures. */
export class S3Client {
  /** For messages. */
  readonly place: string;
  readonly #origin: URL;
  readonly #folder: string;
  readonly #region: string;
  readonly #credentials: Credentials;
  readonly #agent: Agent;
  /** For HEAD: such a request does not wait for a connection behind large transfers. */
  readonly #headAgent: Agent;
  readonly #clock: Clock;

  constructor(address: S3Address, env: NodeJS.ProcessEnv, clock: Clock) {
    const { bucket, prefix, region } = address;
    this.place = `s3://${bucket}/${prefix}`;
    this.#region = region ?? (env["AWS_REGION"] || env["AWS_DEFAULT_REGION"] || "us-east-1");
    ({ origin: this.#origin, folder: this.#folder } = locate(address, this.#region));
    this.#credentials = new Credentials(env, clock);
    this.#clock = clock;
    const options = { keepAlive: true, maxSockets: MAX_CONNECTIONS };
    const AgentOf = this.#origin.protocol === "https:" ? SecureAgent : Agent;
    this.#agent = new AgentOf(options);
    this.#headAgent = new AgentOf(options);
  }

  /** Returns the whole answer. Throws `S3Error` for a status that is neither a success nor among `fine`. */
  async ask(asked: S3Request, fine: readonly number[] = []): Promise<S3Answer> {
    return await this.#retry(asked, fine, async (answer) => {
      const body = await readBody(answer, MAX_ANSWER_BYTES);
      return { status: answer.statusCode ?? 0, headers: answer.headers, body };
    });
  }

  /** Returns the answer as soon as it begins; null for 404. The caller reads or destroys its body. */
  async stream(asked: S3Request, fine: readonly number[] = []): Promise<IncomingMessage | null> {
    const { status, answer } = await this.#retry(asked, [404, ...fine], async (begun) => {
      const status = begun.statusCode ?? 0;
      const isContent = status >= 200 && status < 300;
      const body = isContent ? Buffer.alloc(0) : await readBody(begun, MAX_ANSWER_BYTES);
      return { status, headers: begun.headers, body, answer: begun };
    });
    return status === 404 ? null : answer;
  }

  /** Waits before another try, longer after each; false if there is to be none. */
  async again(tries: number, signal?: AbortSignal): Promise<boolean> {
    if (tries >= MAX_TRIES || signal?.aborted) return false;
    await pause(this.#clock, backoffMs(tries, FIRST_WAIT_MS, LONGEST_WAIT_MS), signal);
    return !signal?.aborted;
  }

  close(): void {
    this.#agent.destroy();
    this.#headAgent.destroy();
  }

  /** All our requests may be repeated: objects are named by their content. */
  async #retry<Read extends S3Answer>(
    asked: S3Request,
    fine: readonly number[],
    read: (answer: IncomingMessage) => Promise<Read>,
  ): Promise<Read> {
    for (let tries = 1; ; tries += 1) {
      let problem: unknown;
      try {
        const answer = await read(await this.#send(asked));
        const isFine = (answer.status >= 200 && answer.status < 300) || fine.includes(answer.status);
        if (isFine) return answer;
        const refusal = new S3Error(this.place, asked, answer);
        const hasEnded = ENDED.has(refusal.code);
        if (hasEnded) this.#credentials.forget();
        if (!hasEnded && !TRANSIENT.has(answer.status)) throw refusal;
        problem = refusal;
      } catch (error) {
        if (!isTransient(error)) throw error;
        problem = error;
      }
      if (!(await this.again(tries, asked.signal))) {
        asked.signal?.throwIfAborted();
        throw unreachable(this.place, problem);
      }
    }
  }

  async #send({ method, key, query = {}, headers = {}, body, signal }: S3Request): Promise<IncomingMessage> {
    signal?.throwIfAborted();
    const path = this.#folder + key;
    const bodyHash = createHash("sha256")
      .update(body ?? "")
      .digest("hex");
    const { host } = this.#origin;
    const unsigned = { ...headers, "x-amz-content-sha256": bodyHash };
    const keys = await this.#credentials.keys();
    const scope = { region: this.#region, service: "s3" };
    const now = this.#clock.now();
    const signed = sign({ method, host, path, query, headers: unsigned, bodyHash }, keys, scope, now);
    const search = encodeQuery(query);
    const agent = method === "HEAD" ? this.#headAgent : this.#agent;
    const sent = (this.#origin.protocol === "https:" ? secureRequest : request)(this.#origin, {
      method,
      path: encodePath(path) + (search === "" ? "" : `?${search}`),
      headers: { ...signed, ...(body && { "content-length": String(body.length) }) },
      agent,
      timeout: SILENCE_MS,
      ...(signal && { signal }),
    });
    sent.once("timeout", () => sent.destroy(new Silence(this.place)));
    sent.end(body);
    try {
      const [answer] = (await once(sent, "response")) as [IncomingMessage];
      return answer;
    } catch (error) {
      // The connection may be dead, and so may the idle ones.
      if (signal?.aborted || error instanceof Silence) dropIdle(agent);
      throw error;
    }
  }
}

function dropIdle({ freeSockets }: Agent): void {
  for (const socket of Object.values(freeSockets).flat()) socket?.destroy();
}

/** The store sent nothing for too long. */
class Silence extends Error {
  readonly code = "ETIMEDOUT";

  constructor(place: string) {
    super(`${place} has not answered for ${SILENCE_MS / 1000} s`);
    this.name = "Silence";
  }
}

/** Whether the error is a transient one of the network. */
export function isTransient(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code !== undefined && NETWORK.test(code);
}

const NETWORK =
  /^(EAI_AGAIN|ECONN(ABORTED|REFUSED|RESET)|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EPIPE|ERR_STREAM_PREMATURE_CLOSE|ETIMEDOUT)$/;

function unreachable(place: string, problem: unknown): Error {
  if (problem instanceof S3Error) return problem;
  const why = problem instanceof Error ? problem.message : String(problem);
  return new Error(`${place} cannot be reached: ${why}`, { cause: problem });
}
