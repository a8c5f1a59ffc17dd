import { type Clock, systemClock } from "../../kit/clock.ts";
import { AppError, isRefusal } from "../../model/errors.ts";
import { operationNamed } from "../operations.ts";
import { lostStorage } from "../upkeep/storage-fault.ts";
import { type Reply, type Request, toFailure, translateCommitError, translateError } from "./messages.ts";
import type { SqliteSession } from "./session.ts";

// A transaction includes all writes that wait when it begins, and those that arrive during this time. It waits for none:
// under load, the next batch gathers during a commit, and a single write is not delayed.
const JOIN_MS = 2;

/**
 * Runs waiting writes as one transaction with a savepoint for each, and returns their replies once all of it is on
 * disk, in the files at the database's path. A failed write rolls back only itself; a storage error fails all of them,
 * with `in_doubt` if they may be on disk nevertheless.
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
    // The batch grows during the loop.
    for (const request of batch) {
      replies.push(await runInSavepoint(session, request));
      const joining = clock.monotonic() < joinUntil ? next() : null;
      if (joining) batch.push(joining);
    }
    isCommitting = true;
    database.exec("commit");
    // Committed to files that may be put back, or lost when this process ends.
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
    // SQLite may have rolled back the whole transaction; then the replies so far are wrong.
    if (isRefusal(translated) || !database.isTransaction) throw error;
    database.exec("rollback to operation");
    database.exec("release operation");
    return { id, failure: toFailure(translated) };
  }
}
