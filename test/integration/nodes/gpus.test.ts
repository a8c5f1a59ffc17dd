import { expect } from "vitest";
import { GpuHistory } from "../../../src/host/gpus/history.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { nodeGpus, tellGpus } from "../../../src/management/installation/hardware.ts";
import type { NodeGpus } from "../../../src/shapes/hardware.ts";
import { answering, NodeTalk, PeerFailure } from "../../../src/nodes/talk.ts";
import { asOwner } from "../../support/as-owner.ts";
import { HandClock } from "../../support/clocks.ts";
import { testDatabases } from "../../support/databases.ts";
import { testAuthority, testNode } from "../../support/nodes/hop.ts";
import { sampleNode } from "../../support/sample-node.ts";
import { SAMPLE_GPUS, ToldGpus } from "../../support/gpus/sample-gpus.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

verifies(
  "hardware.nodes",
  "a node tells another of its GPUs, and is believed only within bounds",
  async () => {
    const authority = await testAuthority();
    const [one, two] = [await testNode(authority), await testNode(authority)];
    const refuse = (): never => {
      throw new Error("nothing was expected here");
    };
    const told = new ToldGpus();
    const gpu = SAMPLE_GPUS[0]!.uuid;
    const held = {
      gpu,
      app: "hello",
      projectId: "p-1",
      replicaId: "replica-1",
      memoryBytes: 20e9,
      usedBytes: 1e9,
    };
    const grants = () => [held, { ...held, memoryBytes: null, usedBytes: null }];
    const { source } = told;
    const app = { projectId: "p-1", app: "hello" };
    const clock = new HandClock();
    const eviction = { atMs: clock.now(), gpus: [gpu], evicted: app, by: { ...app, app: "other" } };
    const old = { ...eviction, atMs: clock.now() - 2 * 3_600_000 };
    const history = new GpuHistory({ source, grants, clock });
    const gpus = { source, grants, evictions: () => [old, eviction], history };
    let said: NodeGpus | null = null;
    const own = answering({
      owners: { lookAfter: refuse },
      warm: refuse,
      liveStatuses: refuse,
      gpus: (withHistory) => said ?? tellGpus(gpus, withHistory),
      holdsRun: refuse,
      onDropped: refuse,
      heartbeat: refuse,
    });
    two.listener.route({
      api: refuse,
      apiUpgrade: refuse,
      management: refuse,
      managementUpgrade: refuse,
      own,
    });
    const talk = new NodeTalk({ peers: one.peers, clock: systemClock });
    expect(await talk.gpus(two.peer, false)).toEqual(nodeGpus(gpus));
    const { history: hour, ...rest } = await talk.gpus(two.peer, true);
    expect(rest).toEqual(nodeGpus(gpus));
    expect(hour?.gpus.map(({ usedBytes }) => usedBytes.at(-1))).toEqual([52e9, null, null, 1e9]);
    expect(hour?.evictions).toMatchObject([{ gpus: [gpu], evicted: { appId: "p-1-hello" } }]);
    history.close();
    said = { driver: "5".repeat(201), trouble: null, gpus: [] };
    await expect(talk.gpus(two.peer, false)).rejects.toThrow(/expected string to have <=200 characters/);
    await two.listener.close();
    await expect(talk.gpus(two.peer, false)).rejects.toThrow(PeerFailure);
  },
);

verifies("hardware.nodes", "a node that does not answer is listed with the reason", async () => {
  const { databaseUrl } = await databases.fresh("postgres");
  const flags = { databaseUrl: databaseUrl ?? "", nodeName: "self" };
  const test = await testService({}, flags, new ToldGpus().options);
  const { owner } = await sampleNode(test.service.store, { name: "away" }, "https://127.0.0.1:1");
  type Listed = { readonly nodeId: string; readonly trouble: string | null; readonly gpus: object[] };
  const list = async () => await asOwner(test)<Listed[]>("GET", "/v2/gpus");
  let machines: Listed[] = [];
  await until("the other node is known", async () => {
    machines = await list();
    return machines.length === 2;
  });
  expect(machines).toMatchObject([
    { name: "away", nodeId: owner, isSelf: false, cpus: 4, driver: null, gpus: [] },
    { name: "self", isSelf: true, trouble: null, gpus: SAMPLE_GPUS.map(({ uuid }) => ({ uuid })) },
  ]);
  expect(machines[0]?.trouble).toContain(`could not ask for its GPUs: node ${owner}`);
});
