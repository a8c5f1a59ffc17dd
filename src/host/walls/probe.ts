import { spawn } from "node:child_process";
import path from "node:path";
import { text } from "node:stream/consumers";
import { z } from "zod";
import { PYTHON_DIR } from "../../config/package-files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { startOf } from "./isolated-start.ts";
import { makeProbeFolder } from "./probe-folder.ts";
import { RUNGS } from "./rung.ts";
import type { Offer } from "./rung.ts";

/** Generous: four processes that start and end. */
const ANSWER_MS = 60_000;
const why = z.string().nullable();
const offer = z.object({ process: why, landlock: why, userns: why, uid: why });

/** What of a host has to be known to try its walls: what apps see of it and what they may not, and a user that projects may have. */
export type ProbedHost = {
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
    return await ask(python, { folder, data_dir, harness: PYTHON_DIR, reads, user: String(user) });
  } finally {
    await removeTree(folder);
  }
}

async function ask(python: string, question: object): Promise<Offer> {
  const child = spawn(python, startOf("millrace_walls.probe"), { env: {}, cwd: "/", timeout: ANSWER_MS });
  child.stdin.on("error", () => {}); // It ended before it read: what it said on stderr tells why.
  child.stdin.end(`${JSON.stringify(question)}\n`);
  const failed = new Promise<never>((_, reject) => void child.once("error", reject));
  try {
    const [said, complaint] = await Promise.race([
      Promise.all([text(child.stdout), text(child.stderr)]),
      failed,
    ]);
    if (said === "") return none(complaint.trim().split("\n").at(-1) ?? "");
    return offer.parse(JSON.parse(said));
  } catch (error) {
    return none((error as Error).message);
  }
}

/** A Python that cannot even try, as without ctypes, gives no rung. */
function none(reason: string): Offer {
  return Object.fromEntries(RUNGS.map((rung) => [rung, reason || "Python gave no answer"])) as Offer;
}
