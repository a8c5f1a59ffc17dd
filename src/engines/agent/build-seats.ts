import type { Clock } from "../../kit/clock.ts";
import type { BuildSeats, BuildWish } from "../build-seats.ts";
import type { Workload } from "../engine.ts";
import { BuildSeat } from "./build-seat.ts";
import type { RemoteParts } from "./remote-parts.ts";

/** Compilers need much, whatever the app is content with. */
const LEAST_MEMORY_BYTES = 4e9;

/** Builds in the seats of a place. One that has not started after that time fails its build. */
export function buildSeats(
  parts: RemoteParts,
  waitMs: number,
  clock: Clock,
  onError: (error: unknown) => void,
): BuildSeats {
  return {
    images: parts.place.images ?? null,
    open: (wish, onObstacle, signal) =>
      new BuildSeat(parts, buildWorkload(wish), waitMs, clock, { onObstacle, onError }, signal),
  };
}

/** A build as what a place starts: it sees no storage and no secrets, and reaches what is not the installation's own. */
export function buildWorkload({ buildId, projectId, bundle, memoryBytes, ...wish }: BuildWish): Workload {
  return {
    ...wish,
    isBuild: true,
    version: { id: buildId, appNumber: 0, bundleBlob: bundle, environmentBlob: null, environmentTag: null },
    projectId,
    bundle: "",
    environment: null,
    variables: {},
    concurrency: 1,
    ignoreExtra: false,
    maxResultBytes: 0,
    maxChunkBytes: 0,
    mayFork: false,
    limits: { memoryBytes: Math.max(memoryBytes ?? 0, LEAST_MEMORY_BYTES), cpus: null, cpuShare: 1 },
    network: "egress",
    unixSockets: false,
    cards: null,
    graceMs: 0,
    server: null,
  };
}
