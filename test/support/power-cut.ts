import { copyFileSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { uuidText } from "../../src/kit/ids.ts";
import { BARE_MILLRACE } from "./command-line.ts";
import type { KillableService } from "./killable-service.ts";
import type { PromisedRuns } from "./promised-runs.ts";
import { REPOSITORY } from "./source-files.ts";

const SCRIPT = path.join(REPOSITORY, "test", "support", "power-cut.py");
const CANNOT_WATCH = 3;

/** What a power cut did. */
export type Cut = {
  /** Bytes that were written and are not on the disk. */
  readonly dropped: number;
  /** How often each file was synced until then. */
  readonly syncs: Readonly<Record<string, number>>;
  /** What SQLite says of what is left. */
  readonly integrity: string;
  /** Accepted runs that are not there any more. */
  readonly lost: readonly string[];
};

/** Where the power is cut. */
export type CutPlace = {
  /** So many writes and syncs of the database's files after the start. */
  readonly after: number;
  readonly seed: number;
  /** Of what was not synced, how much the disk has all the same; by chance if not given. */
  readonly share?: number;
  readonly env?: Record<string, string>;
};

/** This machine does not let a process watch another one's system calls. */
export class CannotWatchError extends Error {}

/** Serves, has clients post all the while, and cuts the power. */
export async function cutPower(
  service: KillableService,
  promised: PromisedRuns,
  { after, seed, share, env = {} }: CutPlace,
): Promise<Cut> {
  const { dataDir } = service.database;
  const options = ["--seed", String(seed), "--after", String(after)];
  if (share !== undefined) options.push("--share", String(share));
  const isUp = await service.start(["python3", SCRIPT, ...options, dataDir, ...BARE_MILLRACE, "serve"], env);
  if (isUp) await promised.post(Number.POSITIVE_INFINITY, { clients: 4, ms: 5, padBytes: 50_000 });
  const code = await service.command.exited;
  const { stdout, stderr } = service.command;
  if (code === CANNOT_WATCH) throw new CannotWatchError(stderr);
  if (code !== 0) throw new Error(`the disk ended with ${code}: ${stderr}\n${stdout}`);
  const summary = JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as Pick<Cut, "dropped" | "syncs">;
  return { ...summary, ...inspect(dataDir, promised) };
}

/** Looks at a copy, so that the service itself finds everything as the cut left it. */
function inspect(dataDir: string, { accepted }: PromisedRuns): Pick<Cut, "integrity" | "lost"> {
  const copy = mkdtempSync(path.join(tmpdir(), "millrace-cut-"));
  for (const name of readdirSync(dataDir).filter((file) => file.startsWith("millrace.db"))) {
    copyFileSync(path.join(dataDir, name), path.join(copy, name));
  }
  const database = new DatabaseSync(path.join(copy, "millrace.db"));
  try {
    const integrity = String(database.prepare("pragma integrity_check").get()?.["integrity_check"]);
    const rows = database.prepare("select id from runs").all() as { id: Uint8Array }[];
    const stored = new Set(rows.map(({ id }) => uuidText(id)));
    return { integrity, lost: [...accepted.keys()].filter((id) => !stored.has(id)) };
  } catch (error) {
    return { integrity: String(error), lost: [...accepted.keys()] };
  } finally {
    database.close();
    rmSync(copy, { recursive: true });
  }
}
