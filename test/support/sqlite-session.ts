import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { openSession, type SqliteSession } from "../../src/store/sqlite/session.ts";

/** A database for the tests of a file, by the connection that made its tables, as the service has it. */
export function sqliteSession(): () => SqliteSession {
  const dir = mkdtempSync(join(tmpdir(), "millrace-session-"));
  let session: SqliteSession;
  beforeAll(async () => {
    session = await openSession("write", join(dir, "millrace.db"));
  });
  afterAll(async () => {
    await session.db.destroy();
    rmSync(dir, { recursive: true, force: true });
  });
  return () => session;
}
