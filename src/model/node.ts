import type { GpuKind } from "./gpu.ts";

/** How many GPUs a node publishes: more than a machine has, each as seven MIG instances. */
export const MAX_PUBLISHED_GPUS = 256;

/** The data that a node publishes about itself. */
export type NodeDetails = {
  /** The name of its host. */
  readonly name: string;
  /** The data directory it runs on: the same after a restart there. */
  readonly home: string;
  readonly capacity: { readonly cpus: number; readonly memoryBytes: number };
  readonly release: string;
  /** How many runs its replicas executed at its last heartbeat. */
  readonly runs: number;
  readonly startedAt: number;
  /** The address for agents of remote seats, as `host:port`; absent without remote seats. */
  readonly seatAddress?: string;
  /** The GPUs that it grants, also if they are out of service; absent from a node of an older release. */
  readonly gpus?: readonly GpuKind[];
  /** The addresses of its management API for other machines, as `address:port`. */
  readonly managementAddresses: readonly string[];
};

/** One service of an installation, while its lease is valid. */
export type ServiceNode = {
  readonly id: string;
  /** For the other nodes. */
  readonly url: string;
  readonly details: NodeDetails;
  /** It takes no more apps. */
  readonly isLeaving: boolean;
  /** How long its lease is still valid, by the database's clock. */
  readonly leaseMs: number;
};

/** The owner of an app, and how often it changed hands. */
export type AppPlace = {
  readonly appNumber: number;
  readonly owner: string | null;
  readonly fence: number;
  /** The owner's lease is valid. */
  readonly isAlive: boolean;
};
