import { expect } from "vitest";
import { Cluster } from "../../support/cluster/cluster.ts";
import { DeployClient } from "../../support/deploy-client.ts";
import { until } from "../../support/until.ts";
import { zipOf } from "../../support/zip.ts";
import { verifies } from "../../verifies.ts";

verifies(
  "nodes.left-builds",
  "a killed node's deploys fail when another has the app: the one under way and the one that waited",
  async () => {
    const cluster = await Cluster.start(2);
    const [victim, other] = cluster.nodes as [(typeof cluster.nodes)[0], (typeof cluster.nodes)[0]];
    const { projectId, token } = cluster;
    const by = ({ baseUrl }: { readonly baseUrl: string }): DeployClient =>
      new DeployClient({ baseUrl, projectId, token }, "app");
    const zip = await zipOf({ "main.py": "import time\n\ntime.sleep(3600)\n", "millrace.toml": "" });
    const client = by(victim);
    const first = await client.begin();
    expect(await client.put(first, zip)).toBe(200);
    await until("the first is tried", async () => (await client.status(first.buildId)) === "initializing");
    const second = await client.begin();
    expect(await client.put(second, zip)).toBe(200);
    expect([await client.status(second.buildId), (await cluster.ownerOf("app"))?.name]).toEqual([
      "pending",
      victim.name,
    ]);
    await victim.kill();
    for (const { buildId } of [first, second]) expect(await by(other).ended(buildId)).toBe("build_failure");
    const messages = (await by(other).list()).map(({ message }) => message);
    expect(new Set(messages)).toEqual(new Set(["the node that built it ended; deploy again"]));
    // Its next deploy is the other's.
    const main = "def run():\n    return 7\n";
    await cluster.deploy("app", { "main.py": main, "millrace.toml": "" }, other);
  },
);
