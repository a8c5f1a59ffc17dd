import { chmodSync, writeFileSync } from "node:fs";
import path from "node:path";
import { TEST_CLUSTER } from "./real-cluster.ts";

/** Writes a `kubectl` into a folder of somebody's PATH: the cluster's own, where there is no other. */
export function writeKubectl(folder: string): void {
  const file = path.join(folder, "kubectl");
  const own = TEST_CLUSTER?.folder
    ? `${path.dirname(TEST_CLUSTER.folder)}/bin/kube kubectl`
    : "command kubectl";
  writeFileSync(file, `#!/bin/sh\nexec ${own} "$@"\n`);
  chmodSync(file, 0o755);
}
