import { vi } from "vitest";
import type { Operation } from "../../src/store/operation.ts";
import type { SqliteSession } from "../../src/store/sqlite/session.ts";

/** How SQLite goes about each new statement that an operation prepares. */
export async function plansOf<Input, Packed>(
  session: SqliteSession,
  { pack, run }: Operation<Input, unknown, Packed>,
  input: Input,
): Promise<string[]> {
  const prepared = vi.spyOn(session.database, "prepare");
  await run(session, pack(input));
  const statements = prepared.mock.calls.map(([statement]) => statement);
  prepared.mockRestore();
  return statements.map((statement) => {
    const places = Array.from({ length: statement.split("?").length - 1 }, () => 1);
    const steps = session.database.prepare(`explain query plan ${statement}`).all(...places);
    return steps.map((step) => step["detail"]).join("; ");
  });
}
