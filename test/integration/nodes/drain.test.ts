import { copyFileSync, mkdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { asOwner } from "../../support/as-owner.ts";
import { scratchDirectory } from "../../support/command-line.ts";
import { testDatabases } from "../../support/databases.ts";
import { testService } from "../../support/service.ts";
import type { TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const APPS = ["one", "two", "three", "four"];
type Seen = { readonly id: string; readonly isSelf: boolean; readonly apps: number };

/** What a node says of all. */
async function nodesOf(at: TestService): Promise<Seen[]> {
  return await asOwner(at)<Seen[]>("GET", "/v2/nodes");
}

verifies(
  "nodes.drain",
  "a drained node hands its apps over and goes on answering, until it is undone",
  async () => {
    const { databaseUrl } = await databases.fresh("postgres");
    const shared = { databaseUrl, blobs: scratchDirectory() };
    const first = await testService({}, { ...shared, nodeName: "first" });
    const dataDir = path.join(scratchDirectory(), "data");
    mkdirSync(dataDir, { mode: 0o700 });
    copyFileSync(path.join(first.settings.dataDir, "master.key"), path.join(dataDir, "master.key"));
    const second = await testService({}, { ...shared, dataDir, nodeName: "second" });
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
