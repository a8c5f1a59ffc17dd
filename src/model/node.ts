/** What a node says of itself. */
export type NodeDetails = {
  /** The name of its host. */
  readonly name: string;
  /** The data directory it runs on: the same after a restart there. */
  readonly home: string;
  readonly capacity: NodeCapacity;
  readonly release: string;
  /** How many runs its replicas were executing at its last heartbeat. */
  readonly runs: number;
  readonly startedAt: number;
  /** Where agents of remote seats reach it, as `host:port`; absent without remote seats. */
  readonly seatAddress?: string;
  /** Where its management API may be reached from other machines, as `address:port`. */
  readonly managementAddresses: readonly string[];
};

/** What its machine has. */
type NodeCapacity = { readonly cpus: number; readonly memoryBytes: number };

/** One service of an installation, while its lease is valid. */
export type ServiceNode = {
  readonly id: string;
  /** Where the other nodes reach it. */
  readonly url: string;
  readonly details: NodeDetails;
  /** It is about to stop, and takes no more apps. */
  readonly isLeaving: boolean;
  /** How long its lease is valid from now on, by the database's clock. */
  readonly leaseMs: number;
};

/** Where an app is: who has it, and how often it changed hands. */
export type AppPlace = {
  readonly appNumber: number;
  /** Null while no node has it. */
  readonly owner: string | null;
  readonly fence: number;
  /** Whether the owner's lease is valid. */
  readonly isAlive: boolean;
};
