import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** The memory that this process holds on to. Garbage is collected first: when V8 would have is no test's matter. */
export function retainedBytes(): number {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  setFlagsFromString("--no-expose-gc");
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
