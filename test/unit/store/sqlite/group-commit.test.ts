import { mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { commitTogether } from "../../../../src/store/sqlite/group-commit.ts";
import type { Reply, Request } from "../../../../src/store/sqlite/messages.ts";
import { openSession, type SqliteSession } from "../../../../src/store/sqlite/session.ts";
import { verifies } from "../../../verifies.ts";

let dir: string;
let session: SqliteSession;
/** Another connection: it sees what is committed, and nothing else. */
let observer: DatabaseSync;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "millrace-commit-"));
  const path = join(dir, "millrace.db");
  session = await openSession("write", path);
  observer = new DatabaseSync(path, { readOnly: true });
});
afterEach(async () => {
  observer.close();
  await session.db.destroy();
  rmSync(dir, { recursive: true, force: true });
});

let lastId = 0;
const put = (key: string, value = "v"): Request => ({
  id: ++lastId,
  name: "meta.setIfAbsent",
  packed: { key, value },
});
/** Fails on the foreign key: there is no such project. */
const fail = (): Request => ({
  id: ++lastId,
  name: "apps.insertOrFind",
  packed: { projectId: "p-none", name: "a", createdAt: 1 },
});

async function commit(requests: readonly Request[]): Promise<Reply[]> {
  const [first, ...rest] = requests;
  return await commitTogether(session, first!, () => rest.shift() ?? null);
}
const committed = () =>
  observer
    .prepare("select key from meta order by key")
    .all()
    .map((row) => row["key"]);
const outcomes = (replies: readonly Reply[]) =>
  replies.map((reply) => {
    if ("result" in reply) return "stored";
    return "code" in reply.failure ? reply.failure.code : "failed";
  });

verifies(
  "store.group-commit",
  "nothing is committed before every write of the batch has run, and all of it when the answers come",
  async () => {
    const seen: unknown[] = [];
    // One waits from the start, another comes while the transaction runs.
    const rest = [put("b"), null, put("c"), null];
    const next = () => {
      seen.push(...committed());
      return rest.shift() ?? null;
    };
    const replies = await commitTogether(session, put("a"), next, { monotonic: () => 0 });
    expect(outcomes(replies)).toEqual(["stored", "stored", "stored"]);
    expect(rest).toEqual([]);
    expect(seen).toEqual([]);
    expect(committed()).toEqual(["a", "b", "c"]);
  },
);

test("a write that fails takes back only itself", async () => {
  const requests = [fail(), put("a"), fail(), put("b")];
  const replies = await commit(requests);
  expect(replies.map(({ id }) => id)).toEqual(requests.map(({ id }) => id));
  expect(outcomes(replies)).toEqual(["failed", "stored", "failed", "stored"]);
  expect(committed()).toEqual(["a", "b"]);
});

test("a full database refuses the whole batch, and takes the next one when there is room", async () => {
  await commit([put("before")]);
  const { page_count: pages } = session.database.prepare("pragma page_count").get() ?? {};
  session.database.exec(`pragma max_page_count = ${Number(pages) + 2}`);
  const big = "x".repeat(100_000);
  for (let attempt = 0; attempt < 3; attempt++) {
    const replies = await commit([put("small"), put("big", big), put("never reached")]);
    expect(new Set(outcomes(replies))).toEqual(new Set(["storage_unavailable"]));
    expect(committed()).toEqual(["before"]);
  }
  session.database.exec("pragma max_page_count = 1000000");
  expect(outcomes(await commit([put("small"), put("big", big)]))).toEqual(["stored", "stored"]);
  expect(committed()).toEqual(["before", "big", "small"]);
});

test("what the disk did not confirm is in doubt, as a crash would find it; what had no room is refused", async () => {
  const failing = (errcode: number) => {
    const { database } = session;
    const exec = (text: string): void => {
      if (text === "commit") throw Object.assign(new Error("disk I/O error"), { errcode });
      database.exec(text);
    };
    return {
      ...session,
      database: {
        exec,
        get isTransaction() {
          return database.isTransaction;
        },
      } as unknown as DatabaseSync,
    };
  };
  const [IOERR_FSYNC, IOERR_WRITE, FULL] = [1034, 778, 13];
  expect(outcomes(await commitTogether(failing(IOERR_FSYNC), put("a"), () => null))).toEqual(["in_doubt"]);
  for (const code of [IOERR_WRITE, FULL])
    expect(outcomes(await commitTogether(failing(code), put("a"), () => null))).toEqual([
      "storage_unavailable",
    ]);
  expect(committed()).toEqual([]);
  expect(outcomes(await commit([put("a")]))).toEqual(["stored"]);
});

test("a database that another process will not let go is storage_unavailable", async () => {
  session.database.exec("pragma busy_timeout = 1");
  const other = new DatabaseSync(join(dir, "millrace.db"));
  other.exec("begin immediate");
  expect(outcomes(await commit([put("a")]))).toEqual(["storage_unavailable"]);
  other.exec("rollback");
  other.close();
  expect(outcomes(await commit([put("a")]))).toEqual(["stored"]);
});

verifies(
  "storage.lost",
  "writes to a file that is gone from its path are refused; those that were committed as it went are in doubt",
  async () => {
    const [file, away] = [join(dir, "millrace.db"), join(dir, "away.db")];
    // It goes while the transaction is open.
    let asked = 0;
    const next = () => {
      if (asked++ === 1) renameSync(file, away);
      return null;
    };
    expect(outcomes(await commitTogether(session, put("a"), next, { monotonic: () => 0 }))).toEqual([
      "in_doubt",
    ]);
    expect(outcomes(await commit([put("b"), put("c")]))).toEqual([
      "storage_unavailable",
      "storage_unavailable",
    ]);
    renameSync(away, file);
    expect(outcomes(await commit([put("d")]))).toEqual(["stored"]);
    expect(committed()).toEqual(["a", "d"]);
  },
);

test("writes stop joining a batch after 2 ms, however many come", async () => {
  let nowMs = 0;
  let asked = 0;
  // None waits at the start; then there is always another one, half a millisecond after the last.
  const next = () => {
    if (asked++ === 0) return null;
    nowMs += 0.5;
    return put(`k${nowMs}`);
  };
  const clock = { monotonic: () => nowMs };
  const replies = await commitTogether(session, put("first"), next, clock);
  expect(nowMs).toBe(2);
  expect(replies).toHaveLength(5);
  expect(committed()).toHaveLength(5);
});
