import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { uuidv7 } from "../../../../src/kit/ids.ts";
import { runs } from "../../../../src/store/runs.ts";
import { openSession } from "../../../../src/store/sqlite/session.ts";
import type { SqliteSession } from "../../../../src/store/sqlite/session.ts";

const dir = mkdtempSync(join(tmpdir(), "millrace-plans-"));
let session: SqliteSession;
beforeAll(async () => {
  const path = join(dir, "millrace.db");
  const writer = await openSession("write", path);
  session = await openSession("read", path);
  await writer.db.destroy();
});
afterAll(async () => {
  await session.db.destroy();
  rmSync(dir, { recursive: true, force: true });
});

type Filter = Omit<Parameters<typeof runs.list.run>[1], "appNumber" | "limit">;

/** How SQLite goes about the statement that a listing prepares. */
async function planOf(filter: Filter): Promise<string> {
  const prepared = vi.spyOn(session.database, "prepare");
  await runs.list.run(session, { appNumber: 1, limit: 50, ...filter });
  const statement = prepared.mock.lastCall?.[0] ?? "";
  prepared.mockRestore();
  const places = Array.from({ length: statement.split("?").length - 1 }, () => 1);
  const steps = session.database.prepare(`explain query plan ${statement}`).all(...places);
  return steps.map((step) => step["detail"]).join("; ");
}

test.each<[Filter, string]>([
  [{}, "SEARCH runs USING PRIMARY KEY (app_number=?)"],
  [{ before: uuidv7(1) }, "SEARCH runs USING PRIMARY KEY (app_number=? AND id<?)"],
  [{ state: "queued" }, "SEARCH runs USING INDEX runs_unfinished (app_number=?)"],
  [
    { state: "running", before: uuidv7(1) },
    "SEARCH runs USING INDEX runs_unfinished (app_number=? AND id<?)",
  ],
  [{ state: "failure" }, "SEARCH runs USING INDEX runs_failed (app_number=?)"],
  [{ asyncOnly: true }, "SEARCH runs USING INDEX runs_async (app_number=?)"],
])("a listing with %j reads only what it lists, in order", async (filter, plan) => {
  expect(await planOf(filter)).toBe(plan);
});
