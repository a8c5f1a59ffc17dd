import { availableParallelism, hostname, networkInterfaces } from "node:os";
import { VERSION } from "../config/release.ts";
import type { Settings } from "../config/setting-keys.ts";
import { directoryId } from "../host/directory-id.ts";
import { ownMemoryBytes } from "../kit/own-memory.ts";
import type { NodeDetails } from "../model/node.ts";

/** What is known only when it is asked for. */
type Later = {
  /** Where agents of seats elsewhere reach it. */
  readonly reached: Pick<NodeDetails, "seatAddress">;
  readonly managementPort: () => number;
};

/** A machine with more is a router, or a host of containers. */
const MAX_ADDRESSES = 64;

/** What this service says of itself to the others, by its settings and its machine. */
export function ownDetails(
  { dataDir, nodeName }: Pick<Settings, "dataDir" | "nodeName">,
  startedAt: number,
  { reached, managementPort }: Later,
): () => Omit<NodeDetails, "runs"> {
  const lasting = {
    name: nodeName ?? hostname(),
    home: directoryId(dataDir),
    capacity: { cpus: availableParallelism(), memoryBytes: ownMemoryBytes() },
    release: VERSION,
    startedAt,
    ...reached,
  };
  return () => ({ ...lasting, managementAddresses: addressesAt(managementPort()) });
}

/** That port at every address of this machine; at loopback addresses only if it has no others. */
function addressesAt(port: number): string[] {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  // Those of one link need an interface, which is not the same elsewhere.
  const usable = all.filter(({ scopeid = 0 }) => scopeid === 0);
  const outer = usable.filter(({ internal }) => !internal);
  return (outer.length > 0 ? outer : usable)
    .slice(0, MAX_ADDRESSES)
    .map(({ address, family }) => `${family === "IPv6" ? `[${address}]` : address}:${port}`);
}
