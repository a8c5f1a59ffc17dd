import { readSettings } from "../../../src/config/settings.ts";
import type { Settings } from "../../../src/config/setting-keys.ts";
import type { Workload } from "../../../src/engines/engine.ts";
import type { SeatOrder } from "../../../src/engines/agent/seat-place.ts";

/** Settings of a service whose engine is a cluster. */
export function kubernetesSettings(env: Readonly<Record<string, string>> = {}): Settings {
  const own = { MILLRACE_ENGINE: "kubernetes", MILLRACE_KUBERNETES_IMAGE: "worker:{python}" };
  return readSettings({ flags: {}, env: { ...own, ...env } }).settings;
}

/** What an agent is told. */
export function orderFor(seatId: string, addresses: readonly string[] = ["10.0.0.5:4300"]): SeatOrder {
  return { seatId, addresses, authority: "-----BEGIN…", ticket: `ticket-of-${seatId}`, graceMs: 30_000 };
}

/** An app that names none of its needs. */
export const WORKLOAD: Workload = {
  projectId: "p-1",
  version: { id: "v", appNumber: 1, bundleBlob: null, environmentBlob: null, environmentTag: null },
  bundle: "b",
  environment: null,
  python: null,
  variables: { API_KEY: "s3cret" },
  concurrency: 1,
  ignoreExtra: false,
  maxResultBytes: 1_000,
  maxChunkBytes: 1_000,
  mayFork: true,
  limits: { memoryBytes: null, cpus: null, cpuShare: 2 },
  network: true,
  unixSockets: false,
  containerRuntime: null,
  gpus: null,
  graceMs: 7_500,
  server: null,
};

/** A pod as the cluster shows it. */
export function shownPod(
  seatId: string,
  status: object = {},
  {
    nodeId = "node-1",
    version = "1",
    ...metadata
  }: { nodeId?: string; version?: string; deletionTimestamp?: string } = {},
): object {
  return {
    metadata: {
      name: `p-1-${seatId}`,
      uid: `uid-${seatId}`,
      resourceVersion: version,
      ...metadata,
      labels: { "millrace.dev/node": nodeId, "millrace.dev/seat": seatId },
    },
    status,
  };
}

/** The status of a pod whose container is in that state. */
export function containerState(state: object, more: object = {}): object {
  return { containerStatuses: [{ name: "seat", state }], ...more };
}
