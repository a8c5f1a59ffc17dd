import { spawn } from "node:child_process";
import { rm } from "node:fs/promises";
import path from "node:path";
import { text } from "node:stream/consumers";
import { PYTHON_DIR } from "../../config/package-files.ts";
import { startOf } from "./isolated-start.ts";
import { makeProbeFolder } from "./probe-folder.ts";
import type { Rung } from "./rung.ts";

/** Generous: two processes that start and end. */
const ANSWER_MS = 60_000;

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
    const child = spawn(python, startOf("millrace_walls.probe_network"), {
      env: {},
      cwd: "/",
      timeout: ANSWER_MS,
    });
    child.stdin.on("error", () => {}); // It ended before it read: what it said tells why.
    child.stdin.end(
      `${JSON.stringify({ rung, folder, data_dir: path.resolve(dataDir), harness: PYTHON_DIR, user: String(user) })}\n`,
    );
    const failed = new Promise<never>((_, reject) => void child.once("error", reject));
    const [said, complaint] = await Promise.race([
      Promise.all([text(child.stdout), text(child.stderr)]),
      failed,
    ]);
    const why = said.trim() || complaint.trim().split("\n").at(-1) || "Python gave no answer";
    return why === "judged" ? null : why;
  } catch (error) {
    return (error as Error).message;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
