import { writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import { processesIn } from "../../support/leak-check.ts";
import { until } from "../../support/until.ts";
import type { TestService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";
import { ONE, Site, ended, recordOf, submit } from "../async/site.ts";
import { app } from "./site.ts";

const HOLD = { functionName: "hold" };
const GRACE = { flags: { shutdownGrace: "0.2s" } };

/** Lets go what waits for that file. */
function open(on: TestService, gate: string): void {
  writeFileSync(path.join(on.settings.dataDir, "storage", on.service.owner.projectId, gate), "");
}

const isRunning = async (on: TestService, app: string, id: string): Promise<boolean> =>
  (await recordOf(on, app, id)).status === "running";

verifies(
  "deploy.old-runs",
  "runs that wait through a deploy and a restart execute on the version that accepted them, or on the current one where that is gone or cannot start",
  async () => {
    const site = new Site({});
    const first = await site.start(GRACE);

    const { version } = await first.deploy("app", app("one", ONE));
    const ids = [await submit(first, "app", { gate: "go" }, HOLD)];
    for (let i = 0; i < 4; i++) ids.push(await submit(first, "app"));
    await until("the first one runs", () => isRunning(first, "app", ids[0]!));
    await first.deploy("app", app("two", ONE));
    ids.push(await submit(first, "app"));
    expect((await first.call("app")).json.result).toBe("two");

    const { version: gone } = await first.deploy("lost", app("one", ONE));
    const lost = [await submit(first, "lost", { gate: "go" }, HOLD)];
    lost.push(await submit(first, "lost"));
    await until("the first one runs", () => isRunning(first, "lost", lost[0]!));
    const { version: broken } = await first.deploy("lost", app("two", ONE));
    lost.push(await submit(first, "lost", { gate: "go" }, HOLD));
    await first.deploy("lost", app("three", ONE));

    await first.service.stop();
    await rm(first.bundleDir({ version: broken }), { recursive: true });
    const second = await site.start({
      ...GRACE,
      aroundStore: (store) => ({
        ...store,
        versions: {
          ...store.versions,
          find: async (id) => (id === gone.id ? null : store.versions.find(id)),
        },
      }),
    });
    open(second, "go");
    const results = [];
    for (const id of ids) results.push((await ended(second, "app", id)).result);
    expect(results).toEqual(["one", "one", "one", "one", "one", "two"]);
    await until(
      "the old version has no process",
      () => processesIn(first.bundleDir({ version })).length === 0,
    );
    for (const id of lost) {
      expect(await ended(second, "lost", id)).toMatchObject({ status: "success", result: "three" });
    }
  },
);
