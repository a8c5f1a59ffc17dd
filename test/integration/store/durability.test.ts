import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { openStore, type Store } from "../../../src/store/store.ts";
import { testProgram } from "../../support/command-line.ts";
import { DATABASE_KINDS, type TestDatabase, testDatabases } from "../../support/databases.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

/** Kills a writing process in mid-stride; returns the ids it had been told are stored. */
async function killedWriter(database: TestDatabase, acknowledgedAtLeast: number): Promise<string[]> {
  const child = spawn(process.execPath, [testProgram("store-writer"), JSON.stringify(database)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  // Also when the test fails or runs out of time.
  onTestFinished(() => void child.kill("SIGKILL"));
  const ids: string[] = [];
  for await (const id of createInterface(child.stdout)) {
    ids.push(id);
    if (ids.length === acknowledgedAtLeast) child.kill("SIGKILL");
  }
  expect((await exited)[1]).toBe("SIGKILL");
  return ids;
}

describe.each(DATABASE_KINDS)("durability on %s", (kind) => {
  verifies(
    ["store.both", "store.group-commit"],
    "whatever was acknowledged before kill -9 is there afterwards",
    async () => {
      const database = await databases.fresh(kind);
      const acknowledged = [...(await killedWriter(database, 300)), ...(await killedWriter(database, 300))];
      const store = await openStore(database);
      const stored = new Set((await store.runs.list({ appNumber: 1, limit: 1_000_000 })).map(({ id }) => id));
      await store.close();
      expect(acknowledged.length).toBeGreaterThanOrEqual(600);
      expect(acknowledged.filter((id) => !stored.has(id))).toEqual([]);
    },
  );

  describe("writes side by side", () => {
    let store: Store;
    beforeAll(async () => {
      store = await openStore(await databases.fresh(kind));
    });
    afterAll(async () => {
      await store.close();
    });

    test("a write that fails beside others takes none of them with it", async () => {
      const put = (i: number) => store.meta.setIfAbsent({ key: `beside${i}`, value: "v" });
      // There is no such project: the foreign key refuses the app, in the same tick as its neighbours.
      const writes = Array.from({ length: 60 }, (_, i) =>
        i % 3 === 1 ? store.apps.insertOrFind({ projectId: "p-none", name: `a${i}`, createdAt: 1 }) : put(i),
      );
      const settled = await Promise.allSettled(writes);
      expect(settled.map(({ status }) => status)).toEqual(
        writes.map((_, i) => (i % 3 === 1 ? "rejected" : "fulfilled")),
      );
      const values = await Promise.all(writes.map((_, i) => store.meta.get(`beside${i}`)));
      expect(values).toEqual(writes.map((_, i) => (i % 3 === 1 ? null : "v")));
      expect(await store.apps.listAll()).toEqual([]);
    });

    test("a hundred writers at once are all answered, each with its own answer", async () => {
      const answers = await Promise.all(
        Array.from({ length: 100 }, (_, i) => store.meta.setIfAbsent({ key: `many${i}`, value: `v${i}` })),
      );
      expect(answers).toEqual(Array.from({ length: 100 }, (_, i) => `v${i}`));
    });

    test("what a write has promised, a read that follows sees", async () => {
      for (let i = 0; i < 100; i++) {
        await store.meta.setIfAbsent({ key: `seen${i}`, value: "v" });
        expect(await store.meta.get(`seen${i}`)).toBe("v");
      }
    });
  });

  test("closing finishes the writes that were asked for before it", async () => {
    const database = await databases.fresh(kind);
    const store = await openStore(database);
    const writes = Array.from({ length: 50 }, (_, i) => store.meta.setIfAbsent({ key: `k${i}`, value: "v" }));
    await store.close();
    expect(await Promise.all(writes)).toHaveLength(50);
    await expect(store.meta.get("k0")).rejects.toThrow("meta.get was called on a store that is closed");
    const again = await openStore(database);
    expect(await again.meta.get("k49")).toBe("v");
    await again.close();
  });
});
