import path from "node:path";
import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { startOf } from "../interpreter.ts";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { z } from "zod";
import { PYTHON_DIR } from "../../config/package-files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { RUNGS } from "./walls.ts";
import type { Offer, Rung } from "./walls.ts";

/** Generous: a few processes that start and end. */
const ANSWER_MS = 60_000;

/**
 * Asks one of the Python programs that try what this host can do, and gives what it printed. Throws with the reason, as
 * the program's last line says it, if it printed nothing or could not be run.
 */
async function askProbe(
  python: string,
  module: `millrace_walls.probe${string}`,
  question: object,
): Promise<string> {
  const child = spawn(python, startOf(module), { env: {}, cwd: "/", timeout: ANSWER_MS });
  child.stdin.on("error", () => {}); // It ended before it read: what it said on stderr tells why.
  child.stdin.end(`${JSON.stringify(question)}\n`);
  const failed = new Promise<never>((_, reject) => void child.once("error", reject));
  const [said, complaint] = await Promise.race([
    Promise.all([text(child.stdout), text(child.stderr)]),
    failed,
  ]);
  if (said.trim() === "") throw new Error(complaint.trim().split("\n").at(-1) || "Python gave no answer");
  return said;
}

/** A folder to try walls in. Not in the data directory, which may not exist yet; nor may what TMPDIR names. */
async function makeProbeFolder(): Promise<string> {
  const root = existsSync(tmpdir()) ? tmpdir() : "/tmp";
  return await mkdtemp(path.join(root, "millrace-walls-"));
}

const why = z.string().nullable();
const offer = z.object({ process: why, landlock: why, userns: why, uid: why });

/** What of a host has to be known to try its walls: what apps see of it and what they may not, and a user that projects may have. */
type ProbedHost = {
  readonly python: string;
  readonly dataDir: string;
  readonly reads: readonly string[];
  readonly user: number;
};

/** Finds out which rungs this host gives, by raising the walls of each around a process that runs into them. */
export async function probeRungs({ python, dataDir, reads, user }: ProbedHost): Promise<Offer> {
  const folder = await makeProbeFolder();
  try {
    const data_dir = path.resolve(dataDir);
    const question = { folder, data_dir, harness: PYTHON_DIR, reads, user: String(user) };
    return offer.parse(JSON.parse(await askProbe(python, "millrace_walls.probe", question)));
  } catch (error) {
    return none((error as Error).message);
  } finally {
    await removeTree(folder);
  }
}

/** A Python that cannot even try, as without ctypes, gives no rung. */
function none(reason: string): Offer {
  return Object.fromEntries(RUNGS.map((rung) => [rung, reason])) as Offer;
}

/**
 * Why connections of apps behind a rung cannot be judged here; null where they can. Found out by making two. `user` is
 * one that projects may have.
 */
export async function probeNetwork(
  python: string,
  rung: Rung,
  dataDir: string,
  user: number,
): Promise<string | null> {
  const folder = await makeProbeFolder();
  try {
    const data_dir = path.resolve(dataDir);
    const question = { rung, folder, data_dir, harness: PYTHON_DIR, user: String(user) };
    const why = (await askProbe(python, "millrace_walls.probe_network", question)).trim();
    return why === "judged" ? null : why;
  } catch (error) {
    return (error as Error).message;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

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
