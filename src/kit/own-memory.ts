import { totalmem } from "node:os";

/** How much memory this process may use: the machine's, or what its control group leaves of that. */
export function ownMemoryBytes(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}
