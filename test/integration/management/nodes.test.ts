import { writeFileSync } from "node:fs";
import { hostname } from "node:os";
import path from "node:path";
import { beforeAll, expect } from "vitest";
import { VERSION } from "../../../src/config/package-files.ts";
import { HOLDING_APP } from "../../support/holding-app.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { sampleNode } from "../../support/sample-node.ts";
import { testService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const shared = sharedService({}, { nodeName: "self" });
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(shared());
});

verifies("nodes.alone", "a service alone is the one node, with its apps and what they execute", async () => {
  const test = await testService({ app: { main: HOLDING_APP } });
  const alone = await ManagementSite.open(test);
  const list = async () => (await alone.call("listNodes", {}, { as: "owner" })).json;
  const call = test.call("app", {}, { functionName: "hold" });
  await until("the call is under way", async () => (await list())[0].runs === 1);
  const [node, ...others] = await list();
  expect(others).toEqual([]);
  expect(node).toMatchObject({
    name: hostname(),
    url: null,
    state: "live",
    isSelf: true,
    apps: 1,
    release: VERSION,
    labels: {},
  });
  writeFileSync(path.join(test.bundleDir("app"), "go"), "");
  await call;
  const asking = { as: "owner", body: { state: "leaving" } } as const;
  const refused = await alone.ask("PATCH", `/v2/nodes/${node.id}`, asking);
  expect([refused.status, refused.json.error.message]).toEqual([400, "No other node could take its apps."]);
});

verifies(
  ["nodes.list", "nodes.drain"],
  "the operator sees the others, drains one, and takes it back",
  async () => {
    const { store } = shared().service;
    const { owner, url } = await sampleNode(store, { name: "other", runs: 7 });
    const app = await shared().deploy("mine", { main: "def run():\n    return 1\n" });
    await store.appOwners.take({ appNumbers: [app.app.number], owner, dead: [], mayJudge: true });
    const list = async () => (await site.call("listNodes", {}, { as: "owner" })).json;
    const other = {
      id: owner,
      name: "other",
      url,
      isSelf: false,
      apps: 1,
      runs: 7,
      labels: {},
    };
    expect(await list()).toMatchObject([{ ...other, state: "live" }, { name: "self" }]);
    const ask = { as: "owner", body: { state: "leaving" } } as const;
    expect((await site.call("changeNode", { node_id: owner }, ask)).json).toMatchObject({ state: "leaving" });
    expect(await list()).toMatchObject([{ ...other, state: "leaving" }, { state: "live" }]);
    const own = (await list())[1].id;
    const last = await site.ask("PATCH", `/v2/nodes/${own}`, ask);
    expect(last.json.error.message).toBe("No other node could take its apps.");
    await site.call("changeNode", { node_id: owner }, { as: "owner", body: { state: "live" } });
    expect(await list()).toMatchObject([{ state: "live" }, { state: "live" }]);
    const unknown = await site.ask("PATCH", "/v2/nodes/none", ask);
    expect([unknown.status, unknown.json.error.code]).toEqual([404, "not_found"]);
    const { json: audit } = await site.call("listAudit", { pageSize: "2" });
    expect(audit.items).toMatchObject([
      { action: "node.undrain", target: owner },
      { action: "node.drain", target: owner, before: { state: "live" }, after: { state: "leaving" } },
    ]);
  },
);
