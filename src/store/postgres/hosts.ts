import { Client, DatabaseError } from "pg";
import type { ClientConfig } from "pg";
import { hostUrls } from "../../config/cluster-keys.ts";

/** A host is waited for so long; all are asked at once, so that several are not waited for longer than one. */
const ASK_MS = 1_500;

/** None of several hosts takes writes: each is away, or a standby. */
class NoWriterError extends Error {
  /** As the server says when it cannot be connected to now. */
  readonly code = "57P03";
}

/**
 * The client that connects to an address: `pg`'s own, or for one with several hosts a client that finds out first
 * which of them takes writes. A standby that is promoted is found by the next connection. While the host of the latest
 * connection takes writes it is used again, so that a host that comes back by mistake is not written to beside it;
 * without one, the first that is named.
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
        // Whoever waited for this connection may have given it up meanwhile.
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

/** The first of them that takes writes. */
async function findWriter(urls: readonly string[]): Promise<Writer> {
  const reasons: unknown[] = [];
  for (const asked of urls.map(
    async (url) => await askForWrites(url).catch((error: unknown) => ({ error })),
  )) {
    const answer = await asked;
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
  // One that breaks meanwhile is told of by what waits for it.
  client.on("error", () => {});
  try {
    await client.connect();
    const { rows } = await client.query<{ isReadOnly: string }>(
      `select current_setting('transaction_read_only') as "isReadOnly"`,
    );
    const { host, port } = client;
    if (rows[0]?.isReadOnly !== "off") throw new Error(`${host}:${port} is read-only`);
    return { url, host, port };
  } finally {
    client.connection.stream.destroy();
  }
}

const WAIT_MS = 5_000;
/** No limit that anybody would set: a session that has it was given it here. */
const ASKED_MS = 12_345;
/** So PgBouncer refuses what it does not know; told to ignore that, it does not pass it on. */
const REFUSED = "08P01";

/**
 * Whether a session has the settings that it is begun with. Not where a pooler lends it out for one transaction at a
 * time: the next one is another's.
 */
export async function keepsSettings(databaseUrl: string, client: typeof Client): Promise<boolean> {
  const connection = new client({
    connectionString: databaseUrl,
    application_name: "millrace",
    connectionTimeoutMillis: WAIT_MS,
    query_timeout: WAIT_MS,
    statement_timeout: ASKED_MS,
  });
  // What breaks is told by what waits for it.
  connection.on("error", () => {});
  try {
    await connection.connect();
    const { rows } = await connection.query<{ limit: string }>(
      "select current_setting('statement_timeout') as limit",
    );
    return rows[0]?.limit === `${ASKED_MS}ms`;
  } catch (error) {
    if (error instanceof DatabaseError && error.code === REFUSED) return false;
    throw error;
  } finally {
    await connection.end().catch(() => {});
  }
}
