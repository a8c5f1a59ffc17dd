import { afterAll, beforeAll } from "vitest";
import type { App } from "../../src/model/app.ts";
import { openStore, type Store } from "../../src/store/store.ts";
import type { DatabaseKind, testDatabases } from "./databases.ts";

export const NOW = Date.UTC(2026, 0, 2, 3, 4, 5, 678);

/** A store of its own for the tests of a group, and projects and apps to fill it with. */
export function sampleStore(databases: ReturnType<typeof testDatabases>, kind: DatabaseKind) {
  let opened: Store | undefined;
  let directory = "";
  let projects = 0;
  beforeAll(async () => {
    const database = await databases.fresh(kind);
    directory = database.dataDir;
    opened = await openStore(database);
  });
  afterAll(async () => {
    await opened?.close();
  });
  const store = (): Store => {
    if (!opened) throw new Error("the store is not open yet");
    return opened;
  };
  const newProject = async (): Promise<string> => {
    const id = `p-test${++projects}`;
    await store().projects.insert({ id, name: "test", createdAt: NOW + projects });
    return id;
  };
  const newApp = async (name = "hello"): Promise<App> =>
    await store().apps.insertOrFind({ projectId: await newProject(), name, createdAt: NOW });
  return { store, dataDir: () => directory, newProject, newApp };
}
