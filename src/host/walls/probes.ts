import { existsSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { z } from "zod";
import { PYTHON_DIR } from "../../config/package-files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { type Offer, WALL_LEVELS, type WallLevel } from "./walls.ts";
import { askModule } from "../interpreter.ts";

/** Generous: a few processes that start and end. */
const ANSWER_MS = 60_000;

/** What is needed to try walls; `user` is one that a project may have. */
export type ProbedHost = {
  readonly python: string;
  readonly dataDir: string;
  readonly reads: readonly string[];
  readonly user: number;
};

const why = z.string().nullable();
const offer = z.object({ process: why, landlock: why, userns: why, uid: why });
const cudaStart = z.object({ bare: why, walled: why, walls: z.array(z.string()) });

/** How CUDA starts on a host: why it fails outside of isolation or inside it, and which walls stop it. */
export type CudaStart = z.infer<typeof cudaStart>;

/** Finds out which levels this host supports, by raising the walls of each around a process that runs into them. */
export async function probeLevels({ reads, ...host }: ProbedHost): Promise<Offer> {
  try {
    return offer.parse(JSON.parse(await ask("probe", host, { reads })));
  } catch (error) {
    // A Python that cannot even try, for example without ctypes, supports no level.
    return Object.fromEntries(WALL_LEVELS.map((level) => [level, (error as Error).message])) as Offer;
  }
}

/** Why connections of apps at a level cannot be filtered here; null if they can. It makes two to find out. */
export async function probeNetwork(
  python: string,
  level: WallLevel,
  dataDir: string,
  user: number,
): Promise<string | null> {
  try {
    const reason = (await ask("probe_network", { python, dataDir, user }, { level })).trim();
    return reason === "judged" ? null : reason;
  } catch (error) {
    return (error as Error).message;
  }
}

/** Whether there is an NVIDIA GPU, or at least its driver. */
export function hasNvidia(): boolean {
  return existsSync("/dev/nvidiactl");
}

/** Starts CUDA outside the walls and behind them. Throws if that cannot be tried. */
export async function probeCuda(
  { reads, ...host }: ProbedHost,
  level: WallLevel | null,
  { hasNotifier, env }: { readonly hasNotifier: boolean; readonly env: NodeJS.ProcessEnv },
): Promise<CudaStart> {
  const libraries = env["LD_LIBRARY_PATH"];
  const variables = libraries === undefined ? {} : { LD_LIBRARY_PATH: libraries };
  const question = { level, reads, has_notifier: hasNotifier, variables };
  return cudaStart.parse(JSON.parse(await ask("probe_cuda", host, question)));
}

/** Runs a Python program that tries walls in a temporary folder. Throws the last line of its stderr if it printed nothing. */
async function ask(
  module: `probe${string}`,
  { python, dataDir, user }: Omit<ProbedHost, "reads">,
  question: object,
): Promise<string> {
  // Not in the data directory, which may not exist yet; nor may the folder that TMPDIR names.
  const folder = await mkdtemp(path.join(existsSync(tmpdir()) ? tmpdir() : "/tmp", "millrace-walls-"));
  try {
    const common = { folder, data_dir: path.resolve(dataDir), harness: PYTHON_DIR, user: String(user) };
    return await askModule(python, `millrace_walls.${module}`, { ...common, ...question }, ANSWER_MS);
  } finally {
    await removeTree(folder);
  }
}
