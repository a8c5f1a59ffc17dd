import { copyFileSync, renameSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { openStore, type Store } from "../../../src/store/store.ts";
import { testDatabases } from "../../support/databases.ts";
import { flipPage, leafPages } from "../../support/flip-page.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

async function opened(): Promise<{ readonly store: Store; readonly file: string }> {
  const database = await databases.fresh("sqlite");
  const store = await openStore(database);
  onTestFinished(() => store.close());
  return { store, file: path.join(database.dataDir, "millrace.db") };
}

verifies(
  "storage.checks",
  "a check in steps finds damage in any table, beside reads and writes that go on",
  async () => {
    const { store, file } = await opened();
    await store.meta.set({ key: "a", value: "b" });
    await store.space.foldLog();
    await store.file()!.check(true);
    expect(store.file()!.fault).toBeNull();
    flipPage(file, leafPages(file, "webhook_secrets")[0]!);
    const [, value] = await Promise.all([store.file()!.check(true), store.meta.get("a")]);
    expect(value).toBe("b");
    expect(store.file()!.fault).toMatchObject({
      detail: expect.stringContaining(`${file} is damaged: `),
    });
    await store.meta.set({ key: "a", value: "c" });
  },
);

verifies(
  "storage.lost",
  "a thread that starts later reads no file that took the place of the database",
  async () => {
    const { store, file } = await opened();
    await store.projects.insert({ id: "p-own", name: "own", createdAt: 1 });
    await store.space.foldLog();
    copyFileSync(file, `${file}.copy`);
    for (const end of ["", "-wal"]) renameSync(`${file}${end}`, `${file}.old${end}`);
    copyFileSync(`${file}.copy`, file);
    copyFileSync(`${file}.old-wal`, `${file}-wal`);
    // Those that are open go on with what they have; a heavy read opens a thread of its own.
    expect(await store.projects.find("p-own")).toMatchObject({ id: "p-own" });
    await expect(store.integrity.tables()).rejects.toMatchObject({ code: "storage_unavailable" });
    await store.file()!.look();
    expect(store.file()!.fault?.detail).toContain("removed, replaced or unmounted");
  },
);
