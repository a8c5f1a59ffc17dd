import { expect, test } from "vitest";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { DeploySite, HELD, answering, bundle } from "./site.ts";

const service = sharedService();
const here = (): DeploySite => new DeploySite(service());

async function lastChange(site: DeploySite): Promise<Record<string, unknown>> {
  const { action, target, before, after } = (await site.ask("GET", "audit")).json.items[0];
  return { action, target, before, after };
}

verifies("apps.patch", "the five settings are changed at once, and the version stays the same", async () => {
  const site = here();
  const path = `apps/${site.appId("patched")}`;
  const { buildId } = await site.deploy("patched", bundle(answering("same")));
  const changes = {
    cooldownPeriodSeconds: 60,
    minReplicaCount: 1,
    // As GET shows it.
    maxReplicaCount: "3",
    responseGracePeriodSeconds: 120,
    replicaConcurrency: 2,
  };
  const patched = await site.ask("PATCH", path, changes);
  expect(patched.status).toBe(200);
  expect(patched.json).toMatchObject({
    cooldownPeriodSeconds: "60",
    minReplicaCount: "1",
    maxReplicaCount: "3",
    responseGracePeriodSeconds: "120",
    latestBuildId: buildId,
  });
  expect((await site.ask("GET", path)).json).toEqual({ ...patched.json, status: expect.any(String) });
  expect(await lastChange(site)).toEqual({
    action: "app.scale",
    target: site.appId("patched"),
    before: null,
    after: {
      cooldownSeconds: 60,
      minReplicas: 1,
      maxReplicas: 3,
      responseGracePeriodSeconds: 120,
      replicaConcurrency: 2,
    },
  });
  const one = await site.ask("PATCH", path, { cooldownPeriodSeconds: 5, minReplicaCount: null });
  expect(one.json).toMatchObject({ cooldownPeriodSeconds: "5", minReplicaCount: "1", maxReplicaCount: "3" });
  expect(await site.answer("patched")).toBe("same");
  // The next deploy has its own settings again.
  await site.deploy("patched", bundle(answering("next")));
  expect((await site.ask("GET", path)).json).toMatchObject({
    cooldownPeriodSeconds: "30",
    minReplicaCount: "0",
    responseGracePeriodSeconds: "900",
  });
});

test("settings out of their bounds are told all at once, and change nothing", async () => {
  const site = here();
  const path = `apps/${site.appId("bounded")}`;
  await site.deploy("bounded", bundle(answering("x")));
  const { status, json } = await site.ask("PATCH", path, {
    cooldownPeriodSeconds: 3601,
    minReplicaCount: 1.5,
    responseGracePeriodSeconds: "soon",
    replicaConcurrency: 2,
  });
  expect(status).toBe(400);
  expect((json.details as { field: string }[]).map(({ field }) => field)).toEqual([
    "cooldownPeriodSeconds",
    "minReplicaCount",
    "responseGracePeriodSeconds",
  ]);
  const crossed = await site.ask("PATCH", path, { minReplicaCount: 9, maxReplicaCount: 8 });
  expect(crossed.json.details).toEqual([
    { field: "maxReplicaCount", problem: "must be at least minReplicaCount, which is 9" },
  ]);
  expect((await site.ask("GET", path)).json).toMatchObject({
    cooldownPeriodSeconds: "30",
    minReplicaCount: "0",
  });
  await site.begin("not-yet");
  const none = await site.ask("PATCH", `apps/${site.appId("not-yet")}`, { minReplicaCount: 1 });
  expect([none.status, none.json.code]).toEqual([404, "build_not_found"]);
});

verifies("apps.rollback", "an earlier build serves again; one that is not the app's is 404", async () => {
  const site = here();
  const path = `apps/${site.appId("rolled")}`;
  const first = await site.deploy("rolled", bundle(answering("first")));
  const second = await site.deploy("rolled", bundle(answering("second")));
  const failed = await site.deploy("rolled", bundle("raise ValueError('no')\n"));
  const back = await site.ask("POST", `${path}/rollback`, { buildId: first.buildId });
  expect(back.status).toBe(200);
  expect(await site.answer("rolled")).toBe("first");
  expect(await lastChange(site)).toEqual({
    action: "app.rollback",
    target: site.appId("rolled"),
    before: { buildId: second.buildId },
    after: { buildId: first.buildId },
  });
  const other = await site.deploy("another", bundle(answering("x")));
  for (const { buildId } of [failed, other]) {
    const { status, json } = await site.ask("POST", `${path}/rollback`, { buildId });
    expect([status, json.code]).toEqual([404, "build_not_found"]);
  }
  expect((await site.ask("POST", `${path}/rollback`, { buildId: "x" })).status).toBe(400);
  expect(await site.answer("rolled")).toBe("first");
});

verifies("builds.changes", "a build says who deployed it, and what its version changes", async () => {
  const site = here();
  const path = `apps/${site.appId("compared")}`;
  const first = await site.deploy("compared", bundle(answering("first")));
  const second = await site.deploy("compared", bundle(`${answering("second")}def more():\n    return 2\n`));
  const failed = await site.deploy("compared", bundle("raise ValueError('no')\n"));
  const { actor } = (await site.ask("GET", "audit?action=app.deploy")).json.items[0];
  const builds = (await site.ask("GET", `${path}/builds`)).json;
  expect(builds.map(({ deployedBy }: Record<string, string>) => deployedBy)).toEqual([actor, actor, actor]);
  const changesOf = async ({ buildId }: { buildId: string }) =>
    await site.ask("GET", `${path}/builds/${buildId}/changes`);
  expect((await changesOf(first)).json).toEqual({ before: null, sameFiles: null, changes: [] });
  const functions = { key: "functions", before: ["run"], after: ["more", "run"] };
  const { json } = await changesOf(second);
  expect(json).toMatchObject({ before: { buildId: first.buildId, version: 1 }, changes: [functions] });
  expect(json.sameFiles).not.toBe(true);
  await site.ask("PATCH", path, { maxReplicaCount: 7 });
  const later = (await changesOf(second)).json.changes as { key: string; after: unknown }[];
  expect(later.find(({ key }) => key.endsWith("max_replicas"))?.after).toBe(7);
  const none = await changesOf(failed);
  expect([none.status, none.json.code]).toEqual([404, "build_not_found"]);
});

verifies("apps.delete", "a deleted app is gone with its builds under way, and its name is free", async () => {
  const site = here();
  const path = `apps/${site.appId("deleted")}`;
  const { buildId } = await site.deploy("deleted", bundle(answering("old")));
  const held = await site.begin("deleted", { shellCommands: [HELD] });
  await site.put(held.uploadUrl, bundle(answering("never")));
  await site.logged("deleted", held.buildId, "held");
  const { status, json } = await site.ask("DELETE", path);
  expect([status, json]).toEqual([200, { id: site.appId("deleted") }]);
  expect((await site.test.call("deleted")).status).toBe(404);
  expect((await site.ask("GET", path)).status).toBe(404);
  expect((await site.ask("DELETE", path)).status).toBe(404);
  expect(await lastChange(site)).toEqual({
    action: "app.delete",
    target: site.appId("deleted"),
    before: { buildId },
    after: null,
  });
  expect(await site.leftovers()).toEqual([]);
  await until("its bundles are gone", async () => (await site.bundles("deleted")).length === 0);
  // Cancelled, or gone already.
  expect([404, 409]).toContain((await site.put(held.uploadUrl, bundle(answering("x")))).status);
  expect((await site.deploy("deleted", bundle(answering("new")))).status).toBe("success");
  expect(await site.answer("deleted")).toBe("new");
  const { json: builds } = await site.ask("GET", `${path}/builds`);
  expect(builds).toHaveLength(1);
});
