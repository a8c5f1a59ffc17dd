import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { KEPT_VERSIONS } from "../../../src/apps/versions/housekeeper.ts";
import { samplePayload, sampleRun } from "../../support/sample-run.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { app, catalogSites } from "./site.ts";

const sites = catalogSites();

verifies(
  "deploy.retention",
  "the newest versions are kept, with the one that serves and those that runs wait for; the others go, folder and row",
  async () => {
    const site = await sites();
    const ids: string[] = [];
    for (let i = 0; i < KEPT_VERSIONS + 3; i++) {
      const candidate = await site.prepare("app", app(String(i)));
      ids.push((await site.catalog.activate(candidate)).version.id);
    }
    const stored = await site.app("app");
    await site.catalog.switcher.rollBack(stored, ids[0]!);
    const run = sampleRun({ appNumber: stored.number, versionId: ids[1]!, isAsync: true, state: "queued" });
    await site.store.runs.accept([{ run, payload: samplePayload(), owner: null }]);
    await site.close();
    // What an end at a bad moment may leave.
    for (const name of ["app/left", "never/left"]) {
      const folder = path.join(site.dataDir, "bundles", site.projectId, name);
      mkdirSync(folder, { recursive: true });
      writeFileSync(path.join(folder, "main.py"), "");
    }
    await site.start();
    const kept = [ids[0]!, ids[1]!, ...ids.slice(3)].toSorted();
    await until("one version is gone", () => site.bundles("app").length === kept.length);
    expect(site.bundles("app").toSorted()).toEqual(kept);
    expect((await site.store.versions.list(stored.number)).map(({ id }) => id).toSorted()).toEqual(kept);
    expect(site.bundles("never")).toEqual([]);
    expect(await site.value("app")).toBe("0");
  },
);
