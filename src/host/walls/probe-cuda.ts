import { existsSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { PYTHON_DIR } from "../../config/package-files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { askProbe } from "./ask-probe.ts";
import type { ProbedHost } from "./probe.ts";
import { makeProbeFolder } from "./probe-folder.ts";
import type { Rung } from "./rung.ts";

const answer = z.object({
  bare: z.nullable(z.string()),
  walled: z.nullable(z.string()),
  walls: z.array(z.string()),
});

/** How CUDA starts on a host: why it does not outside of isolation or inside it, and which parts of that stop it. */
export type CudaStart = z.infer<typeof answer>;

/** There is an NVIDIA GPU, or at least its driver. */
export function hasNvidia(): boolean {
  return existsSync("/dev/nvidiactl");
}

/** Starts CUDA outside the walls of a rung and behind them. Throws if that cannot be tried. */
export async function probeCuda(
  { python, dataDir, reads, user }: ProbedHost,
  rung: Rung | null,
  { hasNotifier, env }: { readonly hasNotifier: boolean; readonly env: NodeJS.ProcessEnv },
): Promise<CudaStart> {
  const folder = await makeProbeFolder();
  try {
    const libraries = env["LD_LIBRARY_PATH"];
    const question = {
      rung,
      folder,
      data_dir: path.resolve(dataDir),
      harness: PYTHON_DIR,
      reads,
      user: String(user),
      has_notifier: hasNotifier,
      variables: libraries === undefined ? {} : { LD_LIBRARY_PATH: libraries },
    };
    return answer.parse(JSON.parse(await askProbe(python, "millrace_walls.probe_cuda", question)));
  } finally {
    await removeTree(folder);
  }
}
