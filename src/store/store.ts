import { Breaker } from "../kit/breaker.ts";
import { type Clock, systemClock } from "../kit/clock.ts";
import { SpanCounts } from "../kit/histograms.ts";
import { AppError, isInDoubt, isRefusal } from "../model/errors.ts";
import { type Calls, callsThrough, operationNamed } from "./operations.ts";
import type { Backend, Lane } from "./operation.ts";
import type { PostgresOpening } from "./postgres/open.ts";
import type { DatabaseFile } from "./upkeep/storage-fault.ts";

/**
 * Everything the service stores. A write is durable when its promise resolves. If the database cannot be reached or
 * written, a call rejects with `storage_unavailable`, and later calls try again. No call waits for a database that does
 * not answer: after 4.25 s it rejects, a write with `in_doubt`, and until the database answers again all other calls
 * are refused at once, except a node's heartbeat.
 */
export type Store = Calls & {
  readonly kind: "sqlite" | "postgres";
  /** Whether the database does not answer reads, or writes. */
  isSilent(lane: Lane): boolean;
  /** Whether the database accepts writes. After a refusal, tests it with a large one: a full disk may take a small one. */
  takesWrites(): Promise<boolean>;
  /** Calls back when another service changed something, until stopped. Hints may be lost; `changes` is complete. */
  listen(onHint: () => void): () => void;
  /** The database's file, which may be damaged or lost; null if a server manages it. */
  file(): DatabaseFile | null;
  /** How long writes took, from the call until they were durable. */
  readonly commits: SpanCounts;
  /** Finishes all calls, then closes the database. */
  close(): Promise<void>;
};

type StoreOptions = WatchOptions &
  PostgresOpening & {
    /** Null: SQLite in the data directory. */
    readonly databaseUrl: string | null;
    readonly dataDir: string;
  };

type WatchOptions = {
  readonly clock?: Clock;
  /** Called when the database stops answering, and when it answers again. */
  readonly onSilence?: (lane: Lane, isSilent: boolean) => void;
};

/** More than fits into the free space inside the database's files. */
const PROOF_BYTES = 64 * 1024;
/** Has a time limit of 2 s itself. If it were refused until a probe succeeds, it would be too late for its lease. */
const HEARTBEAT = "nodes.renew";
const COMMIT_BOUNDS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000];

/** Opens the database and brings it to this release's schema, unless it is only to be read. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const kind = options.databaseUrl === null ? "sqlite" : "postgres";
  return storeOn(await openBackend(options), { ...options, kind });
}

/** A store on an open database. */
export function storeOn(
  backend: Backend,
  { kind, clock = systemClock, onSilence }: WatchOptions & Pick<Store, "kind">,
): Store {
  const breakerOf = (lane: Lane): Breaker =>
    new Breaker({
      clock,
      probe: () => backend.probe(lane),
      isSilence,
      refusal: (wasAsked) => silence(lane, wasAsked),
      onChange: (isOpen) => {
        if (isOpen) backend.abandon(lane);
        onSilence?.(lane, isOpen);
      },
    });
  const breakers = { read: breakerOf("read"), write: breakerOf("write") };
  const commits = new SpanCounts(COMMIT_BOUNDS_MS);
  let hasRefused = false;
  let isClosed = false;
  const calls = callsThrough(async (name, packed) => {
    if (isClosed) throw new Error(`${name} was called on a store that is closed`);
    const ask = async () => await backend.run(name, packed);
    if (operationNamed(name).mode === "read") return await breakers.read.run(ask).catch(cannotRead);
    const askedAt = performance.now();
    const isTried = kind === "postgres" && name === HEARTBEAT && breakers.write.isOpen;
    const result = await (isTried ? ask() : breakers.write.run(ask)).catch((error: unknown) => {
      if (isSilence(error)) hasRefused = true;
      throw error;
    });
    commits.add(performance.now() - askedAt);
    return result;
  });
  const prove = async (): Promise<boolean> => {
    // Writes that are refused in the meantime count again.
    hasRefused = false;
    return await Promise.all([calls.meta.prove(PROOF_BYTES), calls.runs.prove()]).then(
      () => !hasRefused,
      () => false,
    );
  };
  let proving: Promise<boolean> | null = null;
  return {
    ...calls,
    kind,
    isSilent: (lane) => breakers[lane].isOpen,
    takesWrites: async () => {
      if (breakers.write.isOpen) return false;
      if (!hasRefused) return proving === null || (await proving);
      // One at a time, however many ask.
      proving ??= prove().finally(() => (proving = null));
      return await proving;
    },
    listen: (onHint) => backend.listen?.(onHint) ?? (() => {}),
    file: () => backend.file ?? null,
    commits,
    close: async () => {
      isClosed = true;
      for (const breaker of Object.values(breakers)) breaker.stop();
      await backend.close();
    },
  };
}

/** Whether it is unclear after an error if the database answers: a probe finds out. */
function isSilence(error: unknown): boolean {
  return isRefusal(error) || isInDoubt(error);
}

function silence(lane: Lane, wasAsked: boolean): AppError {
  const cause = new Error("the database does not answer");
  return new AppError(lane === "write" && wasAsked ? "in_doubt" : "storage_unavailable", {}, cause);
}

/** The catalogue's message is about writes; a failed read gets its own. */
function cannotRead(error: unknown): never {
  if (!(error instanceof AppError) || error.code !== "storage_unavailable") throw error;
  if (error.detail.message !== undefined) throw error;
  const message = "The service cannot read its storage right now; try again shortly.";
  throw new AppError("storage_unavailable", { message }, error.cause);
}

// Loaded only when used: Kysely and pg take 150 ms to load, and with SQLite only its threads need Kysely.
async function openBackend(options: StoreOptions): Promise<Backend> {
  const { databaseUrl, dataDir, isReadOnly } = options;
  if (databaseUrl !== null)
    return await (await import("./postgres/open.ts")).openPostgres(databaseUrl, options);
  const { lookAtSqlite, openSqlite } = await import("./sqlite/open.ts");
  return isReadOnly ? await lookAtSqlite(dataDir) : await openSqlite(dataDir);
}
