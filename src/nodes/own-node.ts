import { availableParallelism, hostname, networkInterfaces } from "node:os";
import { VERSION } from "../config/package-files.ts";
import type { Settings } from "../config/setting-keys.ts";
import { directoryId } from "../host/data-folders.ts";
import { ownMemoryBytes } from "../kit/memory.ts";
import type { GpuKind } from "../model/gpu.ts";
import { MAX_PUBLISHED_GPUS, type NodeDetails } from "../model/node.ts";

/** A machine with more is a router, or a host of containers. */
const MAX_ADDRESSES = 64;

type OwnParts = {
  /** Where agents of remote seats reach it. */
  readonly reached: Pick<NodeDetails, "seatAddress">;
  readonly managementPort: () => number;
  /** The GPUs that it grants. */
  readonly gpus?: () => readonly GpuKind[];
};

/** The details of this service that the other nodes get. */
export function ownDetails(
  { dataDir, nodeName }: Pick<Settings, "dataDir" | "nodeName">,
  startedAt: number,
  { reached, managementPort, gpus = () => [] }: OwnParts,
): () => Omit<NodeDetails, "runs"> {
  const lasting = {
    name: nodeName ?? hostname(),
    home: directoryId(dataDir),
    capacity: { cpus: availableParallelism(), memoryBytes: ownMemoryBytes() },
    release: VERSION,
    startedAt,
    ...reached,
  };
  return () => ({
    ...lasting,
    gpus: kindsOf(gpus()),
    managementAddresses: addressesAt(managementPort()),
  });
}

function kindsOf(gpus: readonly GpuKind[]): GpuKind[] {
  return gpus.slice(0, MAX_PUBLISHED_GPUS).map(({ model, memoryBytes }) => ({ model, memoryBytes }));
}

/** That port at every address of this machine; at loopback addresses only if it has no others. */
function addressesAt(port: number): string[] {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  // Link-local addresses need an interface, whose name differs on other machines.
  const usable = all.filter(({ scopeid = 0 }) => scopeid === 0);
  const outer = usable.filter(({ internal }) => !internal);
  return (outer.length > 0 ? outer : usable)
    .slice(0, MAX_ADDRESSES)
    .map(({ address, family }) => `${family === "IPv6" ? `[${address}]` : address}:${port}`);
}
