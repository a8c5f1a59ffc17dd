import { systemClock } from "../../kit/clock.ts";
import type { Clock } from "../../kit/clock.ts";
import { AppError } from "../../model/errors.ts";
import { operationNamed } from "../operations.ts";
import { lostStorage } from "../upkeep/storage-fault.ts";
import { toFailure, translateCommitError, translateError } from "./messages.ts";
import type { Reply, Request } from "./messages.ts";
import type { SqliteSession } from "./session.ts";

// What waits when a transaction begins is all in it, and what comes while it is younger than this. Nothing is
// waited for: under load the time of the last commit gathers the next batch, and a lone write is not delayed.
const JOIN_MS = 2;

/**
 * Runs waiting writes as one transaction, a savepoint each, and returns their answers once all of it is on
 * disk, in the files at the database's path. A write that fails takes back only itself; a fault of the storage fails
 * them all, with `in_doubt` where they may be on the disk all the same, and leaves the database ready for the next batch.
 */
export async function commitTogether(
  session: SqliteSession,
  first: Request,
  next: () => Request | null,
  clock: Pick<Clock, "monotonic"> = systemClock,
): Promise<Reply[]> {
  const { database } = session;
  const replies: Reply[] = [];
  const joinUntil = clock.monotonic() + JOIN_MS;
  const batch = [first];
  let isCommitting = false;
  for (let waiting = next(); waiting; waiting = next()) batch.push(waiting);
  if (!session.isInPlace()) return failAll(batch, lostStorage());
  try {
    database.exec("begin immediate");
    // The batch grows while it is walked.
    for (const request of batch) {
      replies.push(await runInSavepoint(session, request));
      const joining = clock.monotonic() < joinUntil ? next() : null;
      if (joining) batch.push(joining);
    }
    isCommitting = true;
    database.exec("commit");
    // Committed to files that somebody may still put back, or that are gone with this process.
    return session.isInPlace() ? replies : failAll(batch, new AppError("in_doubt", {}, lostStorage()));
  } catch (error) {
    if (database.isTransaction) database.exec("rollback");
    return failAll(batch, isCommitting ? translateCommitError(error) : translateError(error));
  }
}

function failAll(batch: readonly Request[], error: unknown): Reply[] {
  const failure = toFailure(error);
  return batch.map(({ id }) => ({ id, failure }));
}

async function runInSavepoint(session: SqliteSession, request: Request): Promise<Reply> {
  const { id, name, packed } = request;
  const { database } = session;
  database.exec("savepoint operation");
  try {
    const result = await operationNamed(name).run(session, packed as never);
    database.exec("release operation");
    return { id, result };
  } catch (error) {
    const translated = translateError(error);
    // SQLite may have given up the whole transaction by itself; the answers so far would then be untrue.
    const isStorageFault = translated instanceof AppError && translated.code === "storage_unavailable";
    if (isStorageFault || !database.isTransaction) throw error;
    database.exec("rollback to operation");
    database.exec("release operation");
    return { id, failure: toFailure(translated) };
  }
}
