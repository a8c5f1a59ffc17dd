import type { GpuGrant, GpuWish } from "../../model/gpu.ts";

/** A wish for GPUs and, once it is granted, the grant. */
export type Claim = {
  /** Null if it was cancelled before. */
  readonly granted: Promise<GpuGrant | null>;
  /** What it waits for, for people; null if it does not wait. */
  obstacle(): string | null;
  cancel(): void;
  /** A process of the replica, by its id on the host. */
  noteProcess(pid: number): void;
  /** The grant comes back when the processes are gone, and their memory is seen to be free. */
  release(processesGone: Promise<void>): void;
};

/** A version of an app whose replicas hold GPUs, as the broker sees it. */
export type Tenant = {
  readonly key: string;
  readonly app: string;
  readonly projectId: string;
  minReplicas(): number;
  idle(): readonly { readonly claim: Claim; readonly sinceMs: number }[];
  /** Ends a replica that is still idle. */
  evict(claim: Claim, forApp: string): void;
};

/** Replicas that an app keeps whatever happens. */
type Minimum = {
  readonly app: string;
  readonly projectId: string;
  readonly wish: GpuWish;
  readonly replicas: number;
};

/** Grants the GPUs of this machine. */
export type GpuBroker = {
  request(wish: GpuWish, tenant: Tenant): Claim;
  /** Why no GPU of this machine will ever serve that; null if one may. */
  never(wish: GpuWish): string | null;
  /** The minimums that have no place on this machine beside the others; those that come first are placed first. */
  fits(minimums: readonly Minimum[]): readonly Minimum[];
};
