import path from "node:path";
import { z } from "zod";
import { PYTHON_DIR } from "../../config/package-files.ts";
import { removeTree } from "../../kit/remove-tree.ts";
import { askProbe } from "./ask-probe.ts";
import { makeProbeFolder } from "./probe-folder.ts";
import { RUNGS } from "./rung.ts";
import type { Offer } from "./rung.ts";

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
