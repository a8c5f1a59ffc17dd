import { readdirSync, statSync } from "node:fs";
import path from "node:path";
import { describe, expect } from "vitest";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { answer, deployPolite, during, scratch } from "../../integration/moved/site.ts";

const databases = testDatabases();

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => name);

describe.each(DATABASE_KINDS)("a deleted app, on %s", (kind) => {
  verifies(
    "deploy.delete.frees",
    "takes all that was kept of it along, and the disk has it back",
    async () => {
      const folder = await scratch();
      const database = { ...(await databases.fresh(kind)), dataDir: path.join(folder, "data") };
      const sizeOf = (): number => statSync(path.join(database.dataDir, "millrace.db")).size;
      const before = await during(database, async ({ store, ...service }) => {
        await deployPolite({ store, ...service }, folder);
        await deployPolite({ store, ...service }, folder, "stays");
        expect(readdirSync(path.join(database.dataDir, "environments"))).toHaveLength(1);
        expect(await answer({ store, ...service })).toEqual(["please", "thanks"]);
        expect(await answer({ store, ...service }, "stays")).toEqual(["please", "thanks"]);
        await service.settle();
        const app = await store.apps.find({ projectId: service.owner.projectId, name: "polite" });
        for (let batch = 0; batch < 20; batch++) {
          const lines = Array.from({ length: 500 }, (_, i) => ({
            id: `0000000${app!.number}-0000-7000-8000-${String(batch * 500 + i).padStart(12, "0")}`,
            appNumber: app!.number,
            runId: null,
            replicaId: "r",
            lineNumber: 1,
            stream: "stdout" as const,
            text: "x".repeat(1_900),
          }));
          await store.logs.insert(lines);
        }
        return app!.number;
      });
      const fullSize = kind === "sqlite" ? sizeOf() : 0;
      await during(database, async (service) => {
        const { store, baseUrl, owner } = service;
        const usage = await store.retention.usage();
        const deleted = await fetch(
          `${baseUrl}/v2/projects/${owner.projectId}/apps/${owner.projectId}-polite`,
          { method: "DELETE", headers: { authorization: `Bearer ${owner.token}` } },
        );
        expect(deleted.status).toBe(200);
        const isGone = async (): Promise<boolean> =>
          (await store.logs.usedByApp()).every(({ appNumber }) => appNumber !== before) &&
          (await store.retention.usage()).bytes < usage.bytes &&
          (await store.builds.list({ appNumber: before, limit: 1 })).length === 0;
        await until("nothing of it is stored", isGone);
        const bundles = path.join(database.dataDir, "bundles", owner.projectId);
        await until("its bundle is gone", () => readdirSync(bundles).join() === "stays");
        // Another app has the same packages.
        expect(await answer(service, "stays")).toEqual(["please", "thanks"]);
        const other = await store.apps.find({ projectId: owner.projectId, name: "stays" });
        expect(await store.builds.list({ appNumber: other!.number, limit: 9 })).toHaveLength(1);
        await fetch(`${baseUrl}/v2/projects/${owner.projectId}/apps/${owner.projectId}-stays`, {
          method: "DELETE",
          headers: { authorization: `Bearer ${owner.token}` },
        });
        const environments = path.join(database.dataDir, "environments");
        await until("the environment goes with the last", () => readdirSync(environments).length === 0);
        await until("no bundle is left", () => filesIn(bundles).length === 0);
        const isSmall = async (): Promise<boolean> => (await store.space.freeBytes()) <= 9 * 1024 * 1024;
        await until("the database has given room back", isSmall);
      });
      // 19 MB were lines; of free pages some are kept for what comes.
      if (kind === "sqlite") expect(sizeOf()).toBeLessThan(fullSize - 10_000_000);
    },
  );
});
