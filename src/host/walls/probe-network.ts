import { rm } from "node:fs/promises";
import path from "node:path";
import { PYTHON_DIR } from "../../config/package-files.ts";
import { askProbe } from "./ask-probe.ts";
import { makeProbeFolder } from "./probe-folder.ts";
import type { Rung } from "./rung.ts";

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
