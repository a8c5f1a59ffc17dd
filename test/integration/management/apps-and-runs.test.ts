import { beforeAll, expect, test } from "vitest";
import { ManagementSite } from "../../support/management-site.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
def run(fails=False):
    if fails:
        raise ValueError("asked to")
    return 1
`;

const service = sharedService({
  hello: {
    main: MAIN,
    toml: "[scaling]\nmin_replicas = 0\ncooldown = 0\n[hardware]\ncpu = 0.5\nmemory = 1.5\n",
  },
  broken: { main: "raise RuntimeError('no model')\n" },
  waits: { main: "import time\ndef run():\n    time.sleep(600)\n" },
  slow: { main: "import time\ntime.sleep(600)\ndef run():\n    return 1\n" },
});
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});

async function statusOf(app: string): Promise<string> {
  const { json } = await site.call("getApp", { app_id: `${site.projectId}-${app}` });
  const listed = (await site.call("listApps")).json as { id: string; status: string }[];
  expect(listed.find(({ id }) => id === json.id)?.status).toBeDefined();
  return json.status;
}

verifies(
  "apps.status",
  "an app is cold, ready while a replica is, in error, starting, or without a version",
  async () => {
    const { test: running } = site;
    expect(await statusOf("hello")).toBe("cold");
    expect((await site.call("listContainers", { app_id: `${site.projectId}-hello` })).json).toEqual([]);
    expect((await running.call("broken")).status).toBe(503);
    expect(await statusOf("broken")).toBe("error");
    const leaving = new AbortController();
    const call = running.call("slow", {}, { signal: leaving.signal }).catch(() => null);
    await until("its replica starts", async () => (await statusOf("slow")) === "notready");
    const [container] = (await site.call("listContainers", { app_id: `${site.projectId}-slow` })).json;
    expect(container).toMatchObject({ containerState: "PENDING", containerRunningTimeMs: 0 });
    leaving.abort();
    await call;
    await running.service.store.apps.insertOrFind({ projectId: site.projectId, name: "new", createdAt: 1 });
    expect(await statusOf("new")).toBe("pending");
    const { json } = await site.call("getApp", { app_id: `${site.projectId}-new` });
    expect(json).toMatchObject({ lastBuildStatus: null, latestBuildId: null });
  },
);

test("numbers are JSON strings, fractions too", async () => {
  const { json } = await site.call("getApp", { app_id: `${site.projectId}-hello` });
  expect(json).toMatchObject({ hardware: "CPU", cpu: "0.5", memory: "1.5", cooldownPeriodSeconds: "0" });
});

test("an app of another project, and what is no app's id, is not found", async () => {
  for (const app_id of ["hello", "p-stranger-hello", `${site.projectId}-`, site.projectId, "x".repeat(200)]) {
    for (const rest of ["", "/runs", "/containers", "/logs", "/secrets"]) {
      const { status, json } = await site.ask("GET", `apps/${app_id}${rest}`);
      expect([app_id, rest, status, json.code]).toEqual([app_id, rest, 404, "app_not_found"]);
    }
  }
});

verifies(
  ["runs.list", "management.paging"],
  "runs are filtered by state and mode, and paged newest first",
  async () => {
    const { test: running } = site;
    const app_id = `${site.projectId}-hello`;
    const ids: string[] = [];
    for (let i = 0; i < 7; i += 1) {
      const suffix = i % 2 === 0 ? "" : "?async=true";
      const { headers } = await running.call("hello", { fails: i >= 5 }, { suffix });
      ids.unshift(headers.get("x-request-id") ?? "");
    }
    const listed = async (query: Record<string, string>): Promise<string[]> =>
      (await site.call("listRuns", { app_id, ...query })).json.items.map(({ id }: { id: string }) => id);
    await until("all have ended", async () => {
      await running.service.settle();
      const done = [...(await listed({ status: "success" })), ...(await listed({ status: "failure" }))];
      return done.length === 7;
    });
    expect(await listed({})).toEqual(ids);
    expect(await listed({ asyncOnly: "true" })).toEqual(ids.filter((_, place) => place % 2 === 1));
    expect(await listed({ asyncOnly: "false" })).toEqual(ids);
    expect(await listed({ status: "failure" })).toEqual(ids.slice(0, 2));
    expect(await listed({ status: "failure", asyncOnly: "true" })).toEqual(ids.slice(1, 2));
    expect(await listed({ mode: "async" })).toEqual(ids.filter((_, place) => place % 2 === 1));
    expect(await listed({ mode: "sync" })).toEqual(ids.filter((_, place) => place % 2 === 0));
    expect(await listed({ functionName: "run", status: "success" })).toEqual(ids.slice(2));
    expect(await listed({ functionName: "other" })).toEqual([]);
    expect(await listed({ from: "2026-01-01T00:00:00+01:00" })).toEqual(ids);
    expect(await listed({ to: "2026-01-01T00:00:00Z" })).toEqual([]);
    const ofProject = async (query: Record<string, string>): Promise<string[]> =>
      (await site.call("listProjectRuns", query)).json.items.map(({ id }: { id: string }) => id);
    expect(await ofProject({ app_id })).toEqual(ids);
    expect((await ofProject({ status: "failure" })).slice(0, 2)).toEqual(ids.slice(0, 2));
    expect((await site.ask("GET", `runs?app_id=${site.projectId}-none`)).json.code).toBe("app_not_found");
    const paged: string[] = [];
    for (let nextToken = ""; ;) {
      const page = await site.call("listRuns", {
        app_id,
        pageSize: "3",
        ...(nextToken !== "" && { nextToken }),
      });
      paged.push(...page.json.items.map(({ id }: { id: string }) => id));
      nextToken = page.json.nextToken;
      if (nextToken === "") break;
    }
    expect(paged).toEqual(ids);
    for (const query of [
      "status=odd",
      "pageSize=0",
      "pageSize=1001",
      "pageSize=x",
      "nextToken=bm9uZQ",
      "asyncOnly=2",
      "tag=",
      "tag=%00",
      `tag=${"x".repeat(129)}`,
      "mode=both",
      "from=yesterday",
    ]) {
      expect([query, (await site.ask("GET", `apps/${app_id}/runs?${query}`)).status]).toEqual([query, 400]);
    }
    expect((await site.ask("GET", `apps/${app_id}/runs/${ids[0]?.toUpperCase()}`)).status).toBe(200);
    expect((await site.ask("GET", `apps/${app_id}/runs/none`)).status).toBe(400);
    const other = "0197c3a0-7e1b-7abc-8def-0123456789ab";
    expect((await site.ask("GET", `apps/${app_id}/runs/${other}`)).json.code).toBe("run_not_found");
  },
);

verifies(
  "runs.by-id",
  "a run is found by its id in its project, stored or in progress, and in no other app",
  async () => {
    const { test: running } = site;
    const listed = async (run_id: string, query: Record<string, string> = {}) => {
      const { json } = await site.call("listProjectRuns", { run_id, ...query });
      return [json.items.map(({ id, modelId }: Record<string, string>) => [id, modelId]), json.nextToken];
    };
    const { headers } = await running.call("hello");
    const stored = headers.get("x-request-id") ?? "";
    await running.service.settle();
    const modelId = `${site.projectId}-hello`;
    expect(await listed(stored.toUpperCase(), { status: "failure" })).toEqual([[[stored, modelId]], ""]);
    expect(await listed(stored, { app_id: modelId })).toEqual([[[stored, modelId]], ""]);
    expect(await listed(stored, { app_id: `${site.projectId}-slow` })).toEqual([[], ""]);
    expect(await listed(crypto.randomUUID())).toEqual([[], ""]);
    const { json } = await running.call("waits", {}, { suffix: "?async=true" });
    expect(await listed(json.run_id)).toEqual([[[json.run_id, `${site.projectId}-waits`]], ""]);
    await running.ofRun("waits", json.run_id, "cancel", { method: "POST" });
  },
);

verifies("hardware.list", "the hardware is what the machine has", async () => {
  const [hardware] = (await site.call("listHardware", {}, { as: "run" })).json;
  expect(hardware).toMatchObject({ name: "CPU", gpuCount: 0 });
  expect(hardware.cpu).toBeGreaterThan(0);
  expect(hardware.memoryGb).toBeGreaterThan(0);
});

verifies("projects.list", "a person sees their projects and makes new ones, which are theirs", async () => {
  const { json: made } = await site.call(
    "createProject",
    {},
    { as: "member", body: { name: " Second one " } },
  );
  expect(made).toEqual({ id: expect.stringMatching(/^p-[a-z0-9]{8}$/), name: "Second one" });
  const own = { id: site.projectId, name: "default" };
  expect((await site.call("listProjects", {}, { as: "member" })).json).toEqual([own, made]);
  expect((await site.call("listProjects", {}, { as: "owner" })).json).not.toContainEqual(made);
  const url = `/v2/projects/${made.id}/service-accounts`;
  expect((await site.ask("POST", url, { as: "member", body: { name: "ci" } })).status).toBe(200);
  expect((await site.ask("POST", url, { as: "owner", body: { name: "ci" } })).status).toBe(403);
  for (const name of ["", " ", "x".repeat(101), "a\nb", 1, null]) {
    expect([name, (await site.ask("POST", "/v2/projects", { as: "member", body: { name } })).status]).toEqual(
      [name, 400],
    );
  }
});
