import { availableParallelism, hostname, totalmem } from "node:os";
import { VERSION } from "../config/release.ts";
import type { NodeDetails } from "../model/node.ts";
import { directoryId } from "./directory-id.ts";

/** What this node says of itself. */
export function ownDetails(dataDir: string, startedAt: number): NodeDetails {
  return {
    name: hostname(),
    home: directoryId(dataDir),
    labels: {},
    capacity: { cpus: availableParallelism(), memoryBytes: totalmem() },
    release: VERSION,
    startedAt,
  };
}
