import { SpanCounts } from "../kit/span-counts.ts";
import { AppError } from "../model/errors.ts";
import { callsThrough, operationNamed } from "./operations.ts";
import type { Calls } from "./operations.ts";
import type { Backend } from "./operation.ts";
import { versionPlaces } from "./version-places.ts";

/**
 * Everything the service remembers. A write is durable when its promise resolves; when the database cannot
 * be reached or written, a call rejects with `storage_unavailable`, and later calls try again.
 */
export type Store = Calls & {
  readonly kind: "sqlite" | "postgres";
  /** How long writes took, from being asked for to being durable. */
  readonly commits: SpanCounts;
  /** Finishes what was asked, then lets go of the database. */
  close(): Promise<void>;
};

type StoreOptions = {
  /** Null: SQLite in the data directory. */
  readonly databaseUrl: string | null;
  readonly dataDir: string;
};

const COMMIT_BOUNDS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000];

/** Opens the database and brings it to this release's schema. */
export async function openStore({ databaseUrl, dataDir }: StoreOptions): Promise<Store> {
  const backend = await openBackend({ databaseUrl, dataDir });
  const commits = new SpanCounts(COMMIT_BOUNDS_MS);
  let isClosed = false;
  const calls = callsThrough(async (name, packed) => {
    if (isClosed) throw new Error(`${name} was called on a store that is closed`);
    if (operationNamed(name).mode === "read") return await backend.run(name, packed).catch(cannotRead);
    const askedAt = performance.now();
    const result = await backend.run(name, packed);
    commits.add(performance.now() - askedAt);
    return result;
  });
  return {
    ...calls,
    versions: versionPlaces(calls.versions, dataDir),
    kind: databaseUrl === null ? "sqlite" : "postgres",
    commits,
    close: async () => {
      isClosed = true;
      await backend.close();
    },
  };
}

/** The catalogue speaks of what was not accepted; who only asked for something is told that. */
function cannotRead(error: unknown): never {
  if (!(error instanceof AppError) || error.code !== "storage_unavailable") throw error;
  throw new AppError(
    "storage_unavailable",
    { message: "The service cannot read its storage now." },
    error.cause,
  );
}

// Each is loaded only where it is used: Kysely and pg take 150 ms to load, and with SQLite only its threads
// need Kysely.
async function openBackend({ databaseUrl, dataDir }: StoreOptions): Promise<Backend> {
  if (databaseUrl !== null) {
    const { openPostgres } = await import("./postgres/open.ts");
    return await openPostgres(databaseUrl);
  }
  const { openSqlite } = await import("./sqlite/open.ts");
  return await openSqlite(dataDir);
}
