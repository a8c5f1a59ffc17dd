import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { uuidv7 } from "../../../src/kit/ids.ts";
import { FIRST_TAG, logIdAt } from "../../../src/model/log-line.ts";
import { logs } from "../../../src/store/log-lines.ts";
import type { Operation } from "../../../src/store/operation.ts";
import { openSession } from "../../../src/store/sqlite/session.ts";
import type { SqliteSession } from "../../../src/store/sqlite/session.ts";

const dir = mkdtempSync(join(tmpdir(), "millrace-plans-"));
let session: SqliteSession;
beforeAll(async () => {
  session = await openSession("write", join(dir, "millrace.db"));
});
afterAll(async () => {
  await session.db.destroy();
  rmSync(dir, { recursive: true, force: true });
});

/** How SQLite goes about the first new statement that an operation prepares. */
async function planOf<Input, Packed>(
  { pack, run }: Operation<Input, unknown, Packed>,
  input: Input,
): Promise<string> {
  const prepared = vi.spyOn(session.database, "prepare");
  await run(session, pack(input));
  const statement = prepared.mock.calls[0]?.[0] ?? "";
  prepared.mockRestore();
  const places = Array.from({ length: statement.split("?").length - 1 }, () => 1);
  const steps = session.database.prepare(`explain query plan ${statement}`).all(...places);
  return steps.map((step) => step["detail"]).join("; ");
}

const place = logIdAt(1n, FIRST_TAG);
const scan = { appNumber: 1, direction: "backward", limit: 10, scanLimit: 20 } as const;

test.each([
  [{}, "USING PRIMARY KEY (app_number=?)"],
  [{ search: "x", after: place, before: place }, "USING PRIMARY KEY (app_number=? AND id>? AND id<?)"],
  [{ runId: uuidv7(1) }, "USING INDEX log_lines_by_run (app_number=? AND run_id=?)"],
  [{ runId: uuidv7(1), after: place }, "USING INDEX log_lines_by_run (app_number=? AND run_id=? AND id>?)"],
])("a scan with %j reads no more than it looks at, in order", async (query, plan) => {
  const steps = await planOf(logs.scan, { ...scan, ...query });
  expect(steps).toContain(`SEARCH log_lines ${plan}`);
  // What is sorted is only what has been looked at already.
  expect(steps.split("MATERIALIZE scanned")[1]?.split(";")[2]).not.toContain("B-TREE");
});

test("what is oldest is found by its age", async () => {
  expect(await planOf(logs.removeOldest, { limit: 10 })).toContain("log_lines_by_age");
  expect(await planOf(logs.expire, { before: 1, limit: 10 })).toContain("log_lines_by_age (id<?)");
  expect(await planOf(logs.last, undefined)).toContain("log_lines_by_age");
});
