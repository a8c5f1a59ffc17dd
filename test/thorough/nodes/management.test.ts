import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { expect } from "vitest";
import { WebSocket as Client } from "ws";
import { testDatabases } from "../../support/databases.ts";
import { asOwner } from "../../support/as-owner.ts";
import { twoOfOne } from "../../support/nodes/two-services.ts";
import { sampleGpu, ToldGpus } from "../../support/gpus/sample-gpus.ts";
import { verifies } from "../../verifies.ts";
import { DeploySite, bundle } from "../../integration/deploys/site.ts";

const databases = testDatabases();
const LONG = Array.from({ length: 40 }, () => `true ${"#".repeat(2_000)}`);
const MAIN = "print('starting')\ndef run():\n    print('called')\n    return 'new'\n";

async function site(): ReturnType<typeof twoOfOne> {
  const { databaseUrl } = await databases.fresh("postgres");
  const pair = await twoOfOne(databaseUrl ?? "");
  await pair.owner.deploy("web", { main: MAIN });
  return pair;
}

verifies("peers.management", "a deploy through a node that does not have the app", async () => {
  const { front, owner } = await site();
  const [here, there] = [new DeploySite(front), new DeploySite(owner)];
  const { baseUrl, owner: who } = front.service;
  const { projectId, token } = who;
  // Of that size neither the payload nor the bundle is read before the owner asks for it.
  const { buildId, uploadUrl } = await here.begin("web", { shellCommands: LONG });
  const zip = new Uint8Array(bundle(MAIN, { "padding.txt": randomBytes(200_000).toString("hex") }));
  expect(uploadUrl.startsWith(`${baseUrl}/`)).toBe(true);
  expect((await fetch(uploadUrl, { method: "PUT", body: zip })).status).toBe(200);
  const query = new URLSearchParams({ projectID: projectId, token, buildID: buildId });
  const reader = new Client(`${baseUrl.replace("http", "ws")}/ws-build-logs?${query.toString()}`);
  const frames: string[] = [];
  reader.on("message", (data: Buffer) => frames.push(data.toString()));
  const [code] = (await once(reader, "close")) as [number];
  expect(code).toBe(1000);
  expect(frames.length).toBeGreaterThan(0);
  const builds = `apps/${here.appId("web")}/builds`;
  const { json } = await here.ask("GET", `${builds}/${buildId}`);
  expect(json).toMatchObject({ status: "success" });
  expect((await here.ask("GET", builds)).json).toEqual((await there.ask("GET", builds)).json);
  // In one call, too; what it says comes as it is said.
  const deployed = await here.ask("POST", "deploys?name=web", bundle(MAIN.replace("new", "newer")));
  expect(deployed.text.trim().split("\n").at(-1)).toContain('"success"');
  const headers = { authorization: `Bearer ${token}` };
  const url = `${front.service.apiUrl}/v4/${projectId}/web/run`;
  expect(await (await fetch(url, { method: "POST", headers })).text()).toContain("newer");
  const refused = await here.ask("GET", builds, undefined, { authorization: "Bearer wrong" });
  expect(refused.status).toBe(401);
});

verifies("peers.management", "the log of an app elsewhere is followed", async () => {
  const { front } = await site();
  const { baseUrl, apiUrl, owner: who } = front.service;
  const { projectId, token } = who;
  const query = new URLSearchParams({ projectID: projectId, appID: `${projectId}-web`, token });
  const reader = new Client(`${baseUrl.replace("http", "ws")}/ws-logs?${query.toString()}`);
  await once(reader, "open");
  const said = once(reader, "message") as Promise<[Buffer]>;
  const headers = { authorization: `Bearer ${token}` };
  await fetch(`${apiUrl}/v4/${projectId}/web/run`, { method: "POST", headers });
  expect((await said)[0].toString()).toContain(`"app_id":"${projectId}-web"`);
  const closed = once(reader, "close");
  reader.close();
  await closed;
});

verifies("peers.moved", "deploys of one new app that begin at two nodes at once both begin", async () => {
  const { front, owner } = await site();
  const [here, there] = [new DeploySite(front), new DeploySite(owner)];
  const known = async (at: DeploySite, app: string): Promise<Set<string>> => {
    const { json } = await at.ask("GET", `apps/${at.appId(app)}/builds`);
    return new Set((json as { id: string }[]).map(({ id }) => id));
  };
  for (let n = 0; n < 8; n += 1) {
    const app = `new-${n}`;
    // Neither node knows the app, and one of them gets it: the other's deploy goes there, though it was read here.
    const begun = await Promise.all([here.begin(app), there.begin(app)]);
    const ids = new Set(begun.map(({ buildId }) => buildId));
    expect(ids.size).toBe(2);
    expect([await known(here, app), await known(there, app)]).toEqual([ids, ids]);
  }
});

verifies("hardware.nodes", "each of two nodes lists the GPUs of both", async () => {
  const { databaseUrl } = await databases.fresh("postgres");
  const [here, there] = [new ToldGpus(), new ToldGpus()];
  there.machine = { driver: "570.1", gpus: [sampleGpu(0, { uuid: "GPU-there" })], trouble: null };
  const { front, owner } = await twoOfOne(databaseUrl ?? "", { front: here.options, owner: there.options });
  type Listed = { readonly isSelf: boolean; readonly driver: string; readonly gpus: readonly object[] };
  for (const [asked, own] of [
    [front, here],
    [owner, there],
  ] as const) {
    const machines = await asOwner(asked)<Listed[]>("GET", "/v2/gpus");
    // In whichever order: both have the name of this machine.
    const told = machines.map(({ isSelf, driver, gpus }) => `${isSelf}, ${driver}, ${gpus.length}`);
    expect(new Set(told)).toEqual(new Set([`${own === there}, 570.1, 1`, `${own === here}, 580.65.06, 4`]));
  }
});
