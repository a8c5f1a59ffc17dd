import { writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import { processesIn } from "../../support/leak-check.ts";
import { until } from "../../support/until.ts";
import type { TestService } from "../../support/service.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";
import { ONE, Site, ended, recordOf, submit } from "../async/site.ts";
import { app } from "./site.ts";

const HOLD = { functionName: "hold" };
const GRACE = { flags: { shutdownGrace: "0.2s", webhookAllow: "127.0.0.0/8" } };

/** Lets go what waits for that file. */
function open(on: TestService, gate: string): void {
  writeFileSync(path.join(on.settings.dataDir, "storage", on.service.owner.projectId, gate), "");
}

const isRunning = async (on: TestService, id: string): Promise<boolean> =>
  (await recordOf(on, "app", id)).status === "running";

verifies(
  "deploy.old-runs",
  "runs that wait through a deploy and a restart execute on the version that accepted them",
  async () => {
    const site = new Site({});
    const first = await site.start(GRACE);
    const { version } = await first.deploy("app", app("one", ONE));
    const ids = [await submit(first, "app", { gate: "go" }, HOLD)];
    for (let i = 0; i < 4; i++) ids.push(await submit(first, "app"));
    await until("the first one runs", () => isRunning(first, ids[0]!));
    await first.deploy("app", app("two", ONE));
    ids.push(await submit(first, "app"));
    expect((await first.call("app")).json.result).toBe("two");
    await first.service.stop();
    const second = await site.start(GRACE);
    open(second, "go");
    const results = [];
    for (const id of ids) results.push((await ended(second, "app", id)).result);
    expect(results).toEqual(["one", "one", "one", "one", "one", "two"]);
    await until("the old version has no process", () => processesIn(version.bundleDir).length === 0);
  },
);

verifies(
  "deploy.old-runs",
  "runs whose version is gone, or cannot start any more, execute on the current one",
  async () => {
    const site = new Site({});
    const first = await site.start(GRACE);
    const { version: gone } = await first.deploy("app", app("one", ONE));
    const held = await submit(first, "app", { gate: "go" }, HOLD);
    const ids = [await submit(first, "app")];
    await until("the first one runs", () => isRunning(first, held));
    const { version: broken } = await first.deploy("app", app("two", ONE));
    ids.push(await submit(first, "app", { gate: "go" }, HOLD));
    await first.deploy("app", app("three", ONE));
    await first.service.stop();
    await rm(broken.bundleDir, { recursive: true });
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
    for (const id of [held, ...ids]) {
      expect(await ended(second, "app", id)).toMatchObject({ status: "success", result: "three" });
    }
  },
);

verifies(
  "deploy.delete",
  "queued runs of a deleted app end as failures, and their webhooks are told",
  async () => {
    const site = new Site({});
    const on = await site.start(GRACE);
    const { app: deployed } = await on.deploy("app", app("one", ONE));
    const target = await WebhookTarget.open();
    const held = await submit(on, "app", { gate: "go" }, HOLD);
    await until("the first one runs", () => isRunning(on, held));
    const suffix = `?async=true&webhookEndpoint=${encodeURIComponent(target.url)}`;
    const ids: string[] = [];
    for (let i = 0; i < 3; i++) ids.push((await on.call("app", {}, { suffix })).json.run_id);
    const { projectId, token } = on.service.owner;
    const deleted = await fetch(`${on.service.baseUrl}/v2/projects/${projectId}/apps/${projectId}-app`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${token}` },
    });
    expect(deleted.status).toBe(200);
    expect((await on.call("app")).json.code).toBe("app_not_found");
    await target.has(3);
    for (const { headers, body } of target.received) {
      expect(ids).toContain(headers["x-request-id"]);
      expect([headers["x-millrace-run-status"], JSON.parse(String(body))]).toMatchObject([
        "404",
        { code: "app_not_found", message: "The app was deleted before the run began." },
      ]);
    }
    const { store } = on.service;
    const stateOf = async (id: string): Promise<unknown> =>
      (await store.runs.find({ appNumber: deployed.number, id }))?.state;
    expect(await Promise.all(ids.map(stateOf))).toEqual(["failure", "failure", "failure"]);
    expect(await stateOf(held)).toBe("running");
    open(on, "go");
    await until("what ran has ended", async () => (await stateOf(held)) === "success");
  },
);
