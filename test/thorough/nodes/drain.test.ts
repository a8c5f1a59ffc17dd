import { copyFileSync, mkdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { asOwner } from "../../support/as-owner.ts";
import { scratchDirectory } from "../../support/command-line.ts";
import { testDatabases } from "../../support/databases.ts";
import { openStream } from "../../support/stream-reader.ts";
import { type TestService, testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const APPS = ["one", "two", "three", "four"];
type Seen = { readonly id: string; readonly isSelf: boolean; readonly apps: number };

/** What a node says of all. */
async function nodesOf(at: TestService): Promise<Seen[]> {
  return await asOwner(at)<Seen[]>("GET", "/v2/nodes");
}

/** Two nodes of one installation. */
async function twoNodes(): Promise<{ first: TestService; second: TestService }> {
  const { databaseUrl } = await databases.fresh("postgres");
  const shared = { databaseUrl, blobs: scratchDirectory() };
  const first = await testService({}, { ...shared, nodeName: "first" });
  const dataDir = path.join(scratchDirectory(), "data");
  mkdirSync(dataDir, { mode: 0o700 });
  copyFileSync(path.join(first.settings.dataDir, "master.key"), path.join(dataDir, "master.key"));
  return { first, second: await testService({}, { ...shared, dataDir, nodeName: "second" }) };
}

verifies(
  "nodes.drain",
  "a drained node hands its apps over and goes on answering, until it is undone",
  async () => {
    const { first, second } = await twoNodes();
    for (const name of APPS) await first.deploy(name, { main: `def run():\n    return "${name}"\n` });
    const own = (await nodesOf(second)).find(({ isSelf }) => isSelf)?.id ?? "";
    const drain = async (state: string) => await asOwner(first)("PATCH", `/v2/nodes/${own}`, { state });
    const appsOf = async (id: string) => (await nodesOf(first)).find((node) => node.id === id)?.apps;
    const answers = async (at: TestService) =>
      await Promise.all(APPS.map(async (name) => (await at.call(name, {})).json.result));
    await drain("leaving");
    await until("it has no apps", async () => (await appsOf(own)) === 0);
    expect(await answers(second)).toEqual(APPS);
    expect(await answers(first)).toEqual(APPS);
    const other = (await nodesOf(first)).find(({ isSelf }) => isSelf)?.id ?? "";
    await drain("live");
    // The other way round, so that whatever it took before has to move.
    await asOwner(first)("PATCH", `/v2/nodes/${other}`, { state: "leaving" });
    await until("it has all apps", async () => (await appsOf(own)) === APPS.length);
    expect(await answers(first)).toEqual(APPS);
  },
);

verifies(
  "nodes.moved-run",
  "a stream goes on where its app no longer is, and is read and cancelled through the new owner",
  async () => {
    const { first, second } = await twoNodes();
    const main = `
import time

def forever():
    while True:
        yield "piece"
        time.sleep(0.01)
`;
    await first.deploy("app", { main });
    const nodes = await nodesOf(first);
    const owner = nodes.find(({ apps }) => apps === 1)!;
    const [old, next] = owner.isSelf ? [first, second] : [second, first];
    const live = openStream(old, "app", {}, { functionName: "forever", token: first.service.owner.token });
    await live.hasMessages(1);
    await asOwner(first)("PATCH", `/v2/nodes/${owner.id}`, { state: "leaving" });
    await until("the app has moved", async () =>
      (await nodesOf(first)).some(({ id, apps }) => apps === 1 && id !== owner.id),
    );
    for (const at of [next, old]) {
      expect((await at.ofRun("app", live.runId)).json.status).toBe("running");
      const reader = openStream(
        at,
        "app",
        {},
        { functionName: `runs/${live.runId}/events`, method: "GET", token: first.service.owner.token },
      );
      await reader.hasMessages(3);
      expect(reader.messages[0]).toEqual({ id: "1", event: null, data: "piece" });
      reader.leave();
    }
    const nowhere = live.runId.replace(/.$/, (digit) => (digit === "0" ? "1" : "0"));
    expect((await next.ofRun("app", nowhere)).status).toBe(404);
    expect((await next.ofRun("app", live.runId, "cancel", { method: "POST" })).status).toBe(202);
    await until("it is cancelled", async () => {
      const { status, json } = await next.ofRun("app", live.runId);
      expect(status).toBe(200);
      return json.status === "cancelled";
    });
  },
);
