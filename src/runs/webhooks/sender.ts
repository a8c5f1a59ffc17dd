import { Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { isIP, type LookupFunction } from "node:net";
import type { LookupAddress, LookupOptions } from "node:dns";
import type { ClientRequest, IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { callbackify } from "node:util";
import type { AddressRanges } from "../../kit/ip-addresses.ts";
import type { Clock } from "../../kit/clock.ts";
import { hostOf, isForbidden } from "./target.ts";
import { parseRetryAfter } from "./schedule.ts";
import { Agent as HttpAgent, request as httpRequest } from "../../kit/node-http.ts";

/** Resolves a name to all its addresses; rejects if there is none. */
export type Resolve = (name: string) => Promise<readonly string[]>;

const HOSTS_FILE = "/etc/hosts";
const QUERY_MS = 2_000;
const TRIES = 2;

/**
 * Asks the hosts file, then the name servers: the machine's, unless others are given. `dns.lookup` would block one of the
 * few threads of all file access, so a few silent name servers would stop the service.
 */
export function nameResolver(servers?: readonly string[]): Resolve {
  return async (name) => {
    const known = hostsEntries(await readFile(HOSTS_FILE, "utf8").catch(() => ""), name);
    if (known.length > 0) return known;
    // These never leave the machine, whatever a name server would say.
    if (/(?:^|\.)localhost$/i.test(name)) return ["127.0.0.1", "::1"];
    // A new one each time: it reads the machine's settings when it is made.
    const resolver = new Resolver({ timeout: QUERY_MS, tries: TRIES });
    if (servers) resolver.setServers(servers);
    const [four, six] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
    const found = [four, six].flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    if (found.length === 0 && four.status === "rejected") throw four.reason;
    return found;
  };
}

/** The addresses that a hosts file gives a name. */
export function hostsEntries(file: string, name: string): string[] {
  const wanted = name.toLowerCase();
  return file.split("\n").flatMap((line) => {
    const [address = "", ...names] = (line.split("#")[0] ?? "").trim().split(/\s+/);
    return isIP(address) !== 0 && names.some((entry) => entry.toLowerCase() === wanted) ? [address] : [];
  });
}

/** Webhooks may not reach the address, or one that the name resolves to. */
class AddressRefused extends Error {
  constructor() {
    super("webhooks may not reach this address");
    this.name = "AddressRefused";
  }
}

const WORDS: readonly (readonly [word: string, codes: readonly string[]])[] = [
  ["name_not_found", ["ENOTFOUND", "ENODATA", "ENONAME", "EBADNAME"]],
  ["name_server_failed", ["ETIMEOUT", "ESERVFAIL", "EREFUSED"]],
  ["connection_refused", ["ECONNREFUSED"]],
  ["connection_reset", ["ECONNRESET", "EPIPE"]],
  ["unreachable", ["ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "EADDRNOTAVAIL"]],
];

const TLS = /^(?:ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|HOSTNAME_MISMATCH|EPROTO)/;

/** One word for why an attempt had no answer, with the code behind it where that tells more. */
function errorWord(error: unknown): string {
  if (error instanceof AddressRefused) return "address_refused";
  const code = error instanceof Error ? ((error as NodeJS.ErrnoException).code ?? "") : "";
  for (const [word, codes] of WORDS) if (codes.includes(code)) return word;
  if (TLS.test(code)) return `tls_failed: ${code}`;
  if (code.startsWith("HPE_")) return `bad_answer: ${code}`;
  return code === "" ? "connection_failed" : `connection_failed: ${code}`;
}

type Posting = {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
};

/** `status`: null without an answer; `error`: one word for what went wrong, null on success. */
export type Answer = {
  readonly status: number | null;
  readonly error: string | null;
  readonly retryAfterMs: number | null;
};

export type SenderOptions = {
  /** Private ranges that webhooks may reach. */
  readonly allow: AddressRanges;
  /** For what people and receivers read. */
  readonly clock: Clock;
  readonly resolve?: Resolve;
  /** For name, connection, TLS, upload and answer together. */
  readonly deadlineMs?: number;
};

const DEADLINE_MS = 15_000;
/** An answer is only read to keep its connection; nothing in it is used. */
const MAX_ANSWER_BYTES = 64 * 1024;
/** Shorter than what servers usually grant an idle connection. */
const IDLE_MS = 4_000;

/** Posts to webhooks: only to addresses that were checked, without redirects or proxies. */
export class Sender {
  readonly #options: SenderOptions;
  readonly #http = new HttpAgent({ keepAlive: true, timeout: IDLE_MS });
  readonly #https = new HttpsAgent({ keepAlive: true, timeout: IDLE_MS });

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** One attempt, never longer than the deadline. Null when the signal ended it: then nothing is known. */
  async send(posting: Posting, signal: AbortSignal): Promise<Answer | null> {
    const { clock, deadlineMs = DEADLINE_MS } = this.#options;
    const abort = new AbortController();
    const breakOff = (): void => abort.abort();
    signal.addEventListener("abort", breakOff);
    const timer = clock.after(deadlineMs, breakOff);
    const seen: Seen = { status: null };
    try {
      signal.throwIfAborted();
      return judge(await this.#exchange(posting, abort.signal, seen), clock.now());
    } catch (error) {
      if (signal.aborted) return null;
      const word = abort.signal.aborted ? "timed_out" : errorWord(error);
      return { status: seen.status, error: word, retryAfterMs: null };
    } finally {
      timer.cancel();
      signal.removeEventListener("abort", breakOff);
    }
  }

  close(): void {
    this.#http.destroy();
    this.#https.destroy();
  }

  async #exchange(posting: Posting, signal: AbortSignal, seen: Seen): Promise<IncomingMessage> {
    // Node asks `lookup` for names alone.
    const host = hostOf(posting.url);
    if (isIP(host) !== 0 && isForbidden(host, this.#options.allow)) throw new AddressRefused();
    const request = this.#open(posting, signal);
    try {
      return await readAnswer(request, posting.body, seen);
    } catch (error) {
      // A kept connection that the target closed as we wrote says nothing about the target.
      if (!request.reusedSocket || signal.aborted || seen.status !== null) throw error;
      return await readAnswer(this.#open(posting, signal, false), posting.body, seen);
    }
  }

  #open({ url, headers }: Posting, signal: AbortSignal, agent?: false): ClientRequest {
    const isHttps = url.protocol === "https:";
    // With this Node asks `lookup` for all addresses at once.
    const options = { method: "POST", headers, signal, lookup: this.#lookup, autoSelectFamily: true };
    return isHttps
      ? httpsRequest(url, { ...options, agent: agent ?? this.#https })
      : httpRequest(url, { ...options, agent: agent ?? this.#http });
  }

  /** Gives a connection only addresses that were checked; one forbidden address rules the name out. */
  readonly #lookup: LookupFunction = callbackify(
    async (name: string, _options: LookupOptions): Promise<LookupAddress[]> => {
      const { allow, resolve = nameResolver() } = this.#options;
      const addresses = await resolve(name.replace(/\.$/, ""));
      if (addresses.some((address) => isForbidden(address, allow))) throw new AddressRefused();
      // An empty list would crash Node.
      if (addresses.length === 0) throw Object.assign(new Error("no address"), { code: "ENODATA" });
      return addresses.map((address) => ({ address, family: isIP(address) }));
    },
  );
}

/** The status of an answer that has begun: it is reported even if the rest does not come. */
type Seen = { status: number | null };

/** Sends the body and reads the answer to its end, or up to `MAX_ANSWER_BYTES`. */
async function readAnswer(request: ClientRequest, body: Uint8Array, seen: Seen): Promise<IncomingMessage> {
  let isWhole = false;
  try {
    return await new Promise<IncomingMessage>((resolve, reject) => {
      request.on("error", reject);
      // Some connections end with neither an error nor an answer.
      request.on("close", () => {
        if (seen.status === null) reject(Object.assign(new Error("closed"), { code: "ECONNRESET" }));
      });
      // Without this listener, Node would close the connection without an event.
      request.on("upgrade", (response, socket) => {
        seen.status = response.statusCode ?? null;
        socket.destroy();
        resolve(response);
      });
      request.on("response", (response) => {
        seen.status = response.statusCode ?? null;
        let bytes = 0;
        response.on("data", (data: Buffer) => {
          bytes += data.length;
          if (bytes > MAX_ANSWER_BYTES) resolve(response);
        });
        response.on("end", () => {
          isWhole = request.writableFinished;
          resolve(response);
        });
        response.on("error", reject);
      });
      request.end(body);
    });
  } finally {
    // A connection is kept only if request and answer are complete.
    if (!isWhole) request.destroy();
  }
}

function judge({ statusCode = 0, headers }: IncomingMessage, now: number): Answer {
  if (statusCode >= 200 && statusCode < 300) return { status: statusCode, error: null, retryAfterMs: null };
  return {
    status: statusCode,
    error: statusCode >= 300 && statusCode < 400 ? "redirect" : "bad_status",
    retryAfterMs: parseRetryAfter(headers["retry-after"], now),
  };
}
