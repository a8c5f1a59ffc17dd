import path from "node:path";
import { SpanCounts } from "../../src/kit/histograms.ts";
import { callsThrough, operationNamed } from "../../src/store/operations.ts";
import { commitTogether } from "../../src/store/sqlite/group-commit.ts";
import { fromFailure } from "../../src/store/sqlite/messages.ts";
import { openSession } from "../../src/store/sqlite/session.ts";
import { openStore, type Store } from "../../src/store/store.ts";
import type { TestDatabase } from "./databases.ts";

/**
 * The store for tests of what stands above it, opened for a few milliseconds: SQLite works on this thread, one
 * operation after the other, each committed as the service's writer does but for the disk, which nobody waits for.
 * Its own two threads take most of a second of a processor to load, and have tests of their own.
 */
export async function openOneThreadStore(database: TestDatabase): Promise<Store> {
  if (database.databaseUrl !== null) return await openStore(database);
  const session = await openSession("write", path.join(database.dataDir, "millrace.db"));
  session.database.exec("pragma synchronous = off");
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = async (work: () => Promise<unknown>): Promise<unknown> => {
    const turn = last.then(work);
    last = turn.catch(() => {});
    return await turn;
  };
  const run = async (name: string, packed: unknown): Promise<unknown> => {
    const operation = operationNamed(name);
    if (operation.mode === "read") return await operation.run(session, packed as never);
    const [reply] = await commitTogether(session, { id: 1, name, packed }, () => null);
    if (!reply) throw new Error(`${name} was not answered`);
    if ("failure" in reply) throw fromFailure(reply.failure);
    return reply.result;
  };
  const calls = callsThrough((name, packed) => inTurn(() => run(name, packed)));
  return {
    ...calls,
    kind: "sqlite",
    isSilent: () => false,
    takesWrites: () => Promise.resolve(true),
    listen: () => () => {},
    file: () => null,
    commits: new SpanCounts([]),
    close: async () => {
      await inTurn(() => session.db.destroy());
    },
  };
}
