import { Client, type ClientConfig, DatabaseError } from "pg";
import { hostUrls } from "../../config/cluster-keys.ts";

/** How long to wait for a host. All are asked at once, so several take no longer than one. */
const ASK_MS = 1_500;

/** None of several hosts accepts writes: each is unreachable or a standby. */
class NoWriterError extends Error {
  /** The code of a server that cannot accept connections now. */
  readonly code = "57P03";
}

/**
 * The client class for an address: `pg`'s own, or for several hosts a client that first finds the one that accepts
 * writes. The latest host is preferred, so that another that wrongly accepts writes gets none; then the hosts in their
 * order.
 */
export function clientClass(databaseUrl: string): typeof Client {
  const urls = hostUrls(databaseUrl);
  if (urls.length === 1) return Client;
  let latest = urls[0]!;
  return class extends Client {
    constructor(config: ClientConfig) {
      super({ ...config, connectionString: urls[0]! });
    }

    override connect(): Promise<Client>;
    override connect(callback: (error: Error) => void): void;
    override connect(callback?: (error: Error) => void): Promise<Client> | void {
      const { promise, resolve, reject } = Promise.withResolvers<Client>();
      const done = callback ?? ((error?: Error | null) => (error ? reject(error) : resolve(this)));
      void this.#connect(done);
      return callback ? undefined : promise;
    }

    async #connect(done: (error: Error) => void): Promise<void> {
      try {
        const { url, host, port } = await findWriter([latest, ...urls.filter((each) => each !== latest)]);
        latest = url;
        Object.assign(this, { host, port });
        // The caller may have given up on this connection in the meantime.
        if (this.connection.stream.destroyed) throw new NoWriterError("timeout expired");
      } catch (error) {
        done(error as Error);
        return;
      }
      super.connect(done);
    }
  };
}

type Writer = Pick<Client, "host" | "port"> & { readonly url: string };

/** The first of them that accepts writes. */
async function findWriter(urls: readonly string[]): Promise<Writer> {
  const reasons: unknown[] = [];
  const asked = urls.map(async (url) => await askForWrites(url).catch((error: unknown) => ({ error })));
  for (const answering of asked) {
    const answer = await answering;
    if (!("error" in answer)) return answer;
    reasons.push(answer.error);
  }
  const words = reasons.map((reason) => (reason instanceof Error ? reason.message : String(reason)));
  throw new NoWriterError(`none of the ${urls.length} hosts accepts writes: ${words.join("; ")}`);
}

async function askForWrites(url: string): Promise<Writer> {
  const client = new Client({
    connectionString: url,
    application_name: "millrace",
    connectionTimeoutMillis: ASK_MS,
    query_timeout: ASK_MS,
  });
  try {
    const isReadOnly = await settingOf(client, "transaction_read_only");
    const { host, port } = client;
    if (isReadOnly !== "off") throw new Error(`${host}:${port} is read-only`);
    return { url, host, port };
  } finally {
    client.connection.stream.destroy();
  }
}

/** Connects and reads a setting of the session. */
async function settingOf(client: Client, name: string): Promise<string | undefined> {
  // A connection error is reported by the pending query.
  client.on("error", () => {});
  await client.connect();
  const { rows } = await client.query<{ value: string }>(`select current_setting('${name}') as value`);
  return rows[0]?.value;
}

const WAIT_MS = 5_000;
/** An unlikely value: a session that has it got it here. */
const ASKED_MS = 12_345;
/** PgBouncer's answer to an unknown setting; if configured to ignore the setting, it does not forward it. */
const REFUSED = "08P01";

/** Whether a session keeps its initial settings: not if a pooler lends sessions for one transaction at a time. */
export async function keepsSettings(databaseUrl: string, client: typeof Client): Promise<boolean> {
  const connection = new client({
    connectionString: databaseUrl,
    application_name: "millrace",
    connectionTimeoutMillis: WAIT_MS,
    query_timeout: WAIT_MS,
    statement_timeout: ASKED_MS,
  });
  try {
    return (await settingOf(connection, "statement_timeout")) === `${ASKED_MS}ms`;
  } catch (error) {
    if (error instanceof DatabaseError && error.code === REFUSED) return false;
    throw error;
  } finally {
    await connection.end().catch(() => {});
  }
}
