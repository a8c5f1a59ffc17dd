import { expect } from "vitest";
import { FakeGpus } from "../../../src/host/gpus/fake.ts";
import { asOwner } from "../../support/as-owner.ts";
import { testDatabases } from "../../support/databases.ts";
import { twoOfOne } from "../../support/nodes/two-services.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { bundle, DeploySite } from "../deploys/site.ts";

const databases = testDatabases();

const MAIN = `
import os

def run():
    return os.environ.get("MILLRACE_GPU_MEMORY")
`;
const T4 = { count: 1, model: "T4", memoryGb: 16 };
const H100 = { count: 16, model: "H100", memoryGb: 80 };
const H100_BYTES = String(80 * 2 ** 30);
/** The first is deployed through the first node, whose app it is at first. */
const NAMES = ["one", "two"];

const asking = (hardware: string) => bundle(MAIN, { "millrace.toml": `[hardware]\n${hardware}\n` });

async function twoNodes(front: readonly (typeof T4)[], owner: readonly (typeof T4)[]) {
  const { databaseUrl } = await databases.fresh("postgres");
  const nodes = await twoOfOne(databaseUrl ?? "", {
    front: { gpus: new FakeGpus(front) },
    owner: { gpus: new FakeGpus(owner) },
  });
  await until("they know each other", async () => {
    const known = [nodes.front, nodes.owner].map((node) => asOwner(node)<object[]>("GET", "/v2/gpus"));
    return (await Promise.all(known)).every(({ length }) => length === 2);
  });
  return { ...nodes, sites: [new DeploySite(nodes.front), new DeploySite(nodes.owner)] as const };
}

verifies(
  "nodes.gpus",
  "an app is served where its GPUs are, whichever node it was deployed through, and owned, before",
  async () => {
    const { front, owner, sites } = await twoNodes([T4], [H100]);
    const zip = asking('compute = "H100"');
    const logs = await Promise.all(
      NAMES.map(async (name, i) => {
        const site = sites[i % 2]!;
        const { status, buildId } = await site.deploy(name, zip);
        expect(status).toBe("success");
        const answers = await Promise.all([front.call(name), owner.call(name)]);
        expect(answers.map(({ status: code, json }) => [code, json.result])).toEqual([
          [200, H100_BYTES],
          [200, H100_BYTES],
        ]);
        return await site.log(name, buildId);
      }),
    );
    const counts = await front.service.store.appOwners.counts();
    expect([...counts.values()]).toEqual([NAMES.length]);
    // The node that built it says so if it cannot serve it.
    const moved = logs.map((log) => log.includes("moves to a node that can serve it"));
    expect(moved).toEqual([true, false]);
  },
);

verifies(
  "nodes.gpus",
  "an app moves when a deploy asks for other GPUs, and back when it is rolled back",
  async () => {
    const { front, sites } = await twoNodes([T4], [H100]);
    const [site] = sites;
    const memory = async () => (await front.call("app")).json.result;
    const first = await site.deploy("app", asking('compute = "H100"'));
    expect(await memory()).toBe(H100_BYTES);
    const second = await site.deploy("app", asking('compute = "T4"'));
    expect([second.status, await memory()]).toEqual(["success", String(16 * 2 ** 30)]);
    const back = await site.ask("POST", `apps/${site.appId("app")}/rollback`, { buildId: first.buildId });
    expect([back.status, await memory()]).toEqual([200, H100_BYTES]);
  },
);

verifies(
  "nodes.gpus",
  "with a GPU on another node, an app that asks for it never runs on the CPU",
  async () => {
    const { front, owner, sites } = await twoNodes([], [H100]);
    for (const [i, name] of NAMES.entries()) {
      const { buildId } = await sites[i % 2]!.deploy(name, asking('compute = "ANY"'));
      expect((await front.call(name)).json.result).toBe(H100_BYTES);
      expect(await sites[0].log(name, buildId)).not.toContain("runs on its CPU");
    }
    // When that node has left, there is no GPU at all.
    await owner.service.stop();
    expect((await front.call("one")).json.result).toBe(null);
  },
);

verifies(
  "nodes.gpus.none",
  "if no node has such a GPU, the deploy warns, and a call is refused at once with what each has",
  async () => {
    const { front, sites } = await twoNodes([T4], [H100]);
    for (const [i, name] of NAMES.entries()) {
      const { status, buildId } = await sites[i % 2]!.deploy(
        name,
        asking('compute = "H100"\ngpu_count = 17'),
      );
      expect(status).toBe("success");
      expect(await sites[0].log(name, buildId)).toContain("warning: calls will fail with no_gpu_free");
      const refused = await front.call(name);
      expect([refused.status, refused.json.code]).toEqual([503, "no_gpu_free"]);
      expect(refused.json.message).toMatch(
        /no other node can serve it either: they have (?:16 × H100 \(80 GB\)|T4 \(16 GB\))\.$/,
      );
    }
  },
);
