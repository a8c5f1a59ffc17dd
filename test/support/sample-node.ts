import { randomUUID } from "node:crypto";
import type { NodeDetails } from "../../src/model/node.ts";
import type { Heartbeat } from "../../src/store/nodes/nodes.ts";
import type { Store } from "../../src/store/store.ts";

/** Nobody renews it: a test is over sooner. */
const LEASE_MS = 60_000;

/** A node that has given one sign of life. Nothing answers at its address, unless the test has put something there. */
export async function sampleNode(
  store: Pick<Store, "nodes">,
  said: Partial<NodeDetails>,
  url = "https://192.0.2.7:4200",
): Promise<Heartbeat & { readonly url: string; readonly details: NodeDetails }> {
  const details = {
    name: "node",
    home: randomUUID(),
    capacity: { cpus: 4, memoryBytes: 8e9 },
    release: "1.2.3",
    runs: 0,
    startedAt: Date.now(),
    managementAddresses: [],
    ...said,
  };
  const sign = { owner: randomUUID(), leaseMs: LEASE_MS, url, isLeaving: false };
  await store.nodes.renew({ ...sign, details });
  return { ...sign, details };
}
