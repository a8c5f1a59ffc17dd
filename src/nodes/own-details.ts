import { availableParallelism, hostname } from "node:os";
import { VERSION } from "../config/release.ts";
import type { Settings } from "../config/setting-keys.ts";
import { directoryId } from "../host/directory-id.ts";
import { ownMemoryBytes } from "../kit/own-memory.ts";
import type { NodeDetails } from "../model/node.ts";

/** What this service says of itself to the others, by its settings and its machine; asked for once. */
export function ownDetails(
  { dataDir, nodeName, nodeLabels }: Pick<Settings, "dataDir" | "nodeName" | "nodeLabels">,
  startedAt: number,
): Omit<NodeDetails, "runs"> {
  return {
    name: nodeName ?? hostname(),
    home: directoryId(dataDir),
    labels: nodeLabels,
    capacity: { cpus: availableParallelism(), memoryBytes: ownMemoryBytes() },
    release: VERSION,
    startedAt,
  };
}
