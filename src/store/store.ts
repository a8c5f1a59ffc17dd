import { Breaker } from "../kit/breaker.ts";
import { systemClock } from "../kit/clock.ts";
import type { Clock } from "../kit/clock.ts";
import { SpanCounts } from "../kit/histograms.ts";
import { AppError } from "../model/errors.ts";
import { callsThrough, operationNamed } from "./operations.ts";
import type { Calls } from "./operations.ts";
import type { Backend, Lane } from "./operation.ts";
import type { UpgradeReports } from "./postgres/upgrade.ts";
import type { DatabaseFile } from "./upkeep/storage-fault.ts";

/**
 * Everything the service remembers. A write is durable when its promise resolves; when the database cannot
 * be reached or written, a call rejects with `storage_unavailable`, and later calls try again. No call waits for a
 * database that says nothing: after 4.25 s of silence it rejects, a write with `in_doubt`, and while the silence
 * lasts every other is refused at once, but for a node's sign of life.
 */
export type Store = Calls & {
  readonly kind: "sqlite" | "postgres";
  /** Whether the database does not answer reads, or writes. */
  isSilent(lane: Lane): boolean;
  /**
   * Whether the database takes writes, as far as is known. Once it has refused one it is asked by a write of some size,
   * until it takes that: on a full disk what is small may still find room.
   */
  takesWrites(): Promise<boolean>;
  /**
   * Calls back when another service has changed something, until what it returns is called. Some hints are lost: who
   * has to know everything looks at `changes`. Where the service is alone there are none.
   */
  listen(onHint: () => void): () => void;
  /** The database's own file, which may break or be lost; null where a server looks after it. */
  file(): DatabaseFile | null;
  /** How long writes took, from being asked for to being durable. */
  readonly commits: SpanCounts;
  /** Finishes what was asked, then lets go of the database. */
  close(): Promise<void>;
};

type StoreOptions = WatchOptions &
  UpgradeReports & {
    /** Null: SQLite in the data directory. */
    readonly databaseUrl: string | null;
    readonly dataDir: string;
    /** Where Postgres is reached without a pooler, to listen and to migrate; null: the same address. */
    readonly databaseDirectUrl?: string | null;
    /** The database is read as it is, and nothing of it changed; nobody else may have it open. */
    readonly isReadOnly?: boolean;
  };

type WatchOptions = {
  readonly clock?: Clock;
  /** The database has fallen silent, or is back. */
  readonly onSilence?: (lane: Lane, isSilent: boolean) => void;
};

/** Too much for the room that is left in what a database has taken of its disk already. */
const PROOF_BYTES = 64 * 1024;
/** It gives up by itself within 2 s; refused until a probe is answered, it would come too late for its lease. */
const SIGN_OF_LIFE = "nodes.renew";
const COMMIT_BOUNDS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000];

/** Opens the database and brings it to this release's schema, unless it is only to be read. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const kind = options.databaseUrl === null ? "sqlite" : "postgres";
  return storeOn(await openBackend(options), { ...options, kind });
}

/** A store on a database that is open. */
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
    const isTried = kind === "postgres" && name === SIGN_OF_LIFE && breakers.write.isOpen;
    const result = await (isTried ? ask() : breakers.write.run(ask)).catch((error: unknown) => {
      if (isSilence(error)) hasRefused = true;
      throw error;
    });
    commits.add(performance.now() - askedAt);
    return result;
  });
  const prove = async (): Promise<boolean> => {
    // What is refused meanwhile counts again.
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

/** Errors after which it is unclear whether the database answers: a probe finds out. */
function isSilence(error: unknown): boolean {
  return error instanceof AppError && (error.code === "storage_unavailable" || error.code === "in_doubt");
}

function silence(lane: Lane, wasAsked: boolean): AppError {
  const cause = new Error("the database does not answer");
  return new AppError(lane === "write" && wasAsked ? "in_doubt" : "storage_unavailable", {}, cause);
}

/** The catalogue's message is about writes; a failed read gets its own. */
function cannotRead(error: unknown): never {
  if (!(error instanceof AppError) || error.code !== "storage_unavailable") throw error;
  if (error.detail.message !== undefined) throw error;
  throw new AppError(
    "storage_unavailable",
    { message: "The service cannot read its storage right now; try again shortly." },
    error.cause,
  );
}

// Each is loaded only where it is used: Kysely and pg take 150 ms to load, and with SQLite only its threads
// need Kysely.
async function openBackend({
  databaseUrl,
  databaseDirectUrl = null,
  dataDir,
  isReadOnly = false,
  onUpgrade,
  onUpgradeWait,
}: StoreOptions): Promise<Backend> {
  if (databaseUrl !== null) {
    const { openPostgres } = await import("./postgres/open.ts");
    return await openPostgres(databaseUrl, { databaseDirectUrl, isReadOnly, onUpgrade, onUpgradeWait });
  }
  if (isReadOnly) return await (await import("./sqlite/open.ts")).lookAtSqlite(dataDir);
  const { openSqlite } = await import("./sqlite/open.ts");
  return await openSqlite(dataDir);
}
