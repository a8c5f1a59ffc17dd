import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import type { ServiceNode } from "../../../src/model/node.ts";
import { Neighbours } from "../../../src/nodes/neighbours.ts";
import { HandClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

verifies("walls.nodes", "the walls of apps know the management APIs of all nodes but their own", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-neighbours-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, "neighbours");
  const lines = (): string[] => readFileSync(file, "utf8").split("\n").slice(0, -1);
  const node = (id: string, url: string, managementAddresses: string[] = []): ServiceNode => {
    const capacity = { cpus: 4, memoryBytes: 8e9 };
    const said = { name: id, home: id, labels: {}, capacity, release: "1.2.3", runs: 0, startedAt: 1 };
    return { id, url, details: { ...said, managementAddresses }, isLeaving: false, leaseMs: 6_000 };
  };
  let nodes = [node("own", "https://10.0.0.1:4200", ["10.0.0.1:4100"])];
  const clock = new HandClock();
  const kept = new Neighbours({
    file,
    nodes: () => nodes,
    ownId: "own",
    managementPort: () => 4100,
    clock,
    log: createLog("silent"),
  });
  await kept.start();
  onTestFinished(() => kept.stop());
  expect([lines(), statSync(file).mode & 0o777]).toEqual([[], 0o600]);
  // One tells its addresses, one tells none, and one tells nonsense.
  const told = node("b", "https://10.0.0.2:4200", ["192.168.1.2:4199", "[fd00::2]:4199"]);
  const silent = node("c", "https://[fd00::3]:4200");
  const odd = node("d", "https://name.internal:4200", ["10.0.0.4:4100\n0.0.0.0/0"]);
  nodes = [...nodes, told, silent, odd];
  clock.advance(1_000);
  const all = ["192.168.1.2:4199", "[fd00::2]:4199", "10.0.0.2:4199", "[fd00::3]:4100"];
  await until("they are there", () => lines().length === all.length);
  expect(lines()).toEqual(all);
  // One that counts as dead may still listen.
  nodes = nodes.slice(0, 1);
  clock.advance(1_000);
  await kept.stop();
  expect(lines()).toEqual(all);
});
