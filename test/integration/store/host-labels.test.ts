import { describe, expect } from "vitest";
import { hostLabel } from "../../../src/model/names.ts";
import { openStore } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const projectId = "p-labels01";
const LONG = { projectId, appName: "a".repeat(60) };

describe.each(DATABASE_KINDS)("host labels on %s", (kind) => {
  verifies("origins.lookup", "an app is found by a label with a hash, until it is deleted", async () => {
    const store = await openStore(await databases.fresh(kind));
    await store.projects.insert({ id: projectId, name: "test", createdAt: 1 });
    for (const name of [LONG.appName, "short", `xn--${"a".repeat(50)}`])
      await store.apps.insertOrFind({ projectId, name, createdAt: 1 });
    const found = async () =>
      await store.apps.findHosted([hostLabel(LONG) ?? "", `short--${projectId}`, "x"]);
    expect(await found()).toEqual([LONG]);
    const { number } = (await store.apps.find({ projectId, name: LONG.appName })) ?? { number: 0 };
    await store.apps.markDeleted({ appNumber: number, now: 2 });
    expect(await found()).toEqual([]);
    await store.close();
  });
});
