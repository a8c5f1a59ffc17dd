import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";

const NOBODY = 65_534;
const PATH = { ...process.env, PATH: `${process.env["PATH"]}:/usr/sbin:/usr/local/sbin` };

/** The release of the PgBouncer that is installed; null where there is none. */
export function pgbouncerRelease(): string | null {
  const { stdout, status } = spawnSync("pgbouncer", ["--version"], { encoding: "utf8", env: PATH });
  return status === 0 ? (/\d+\.\d+\.\d+/.exec(stdout)?.[0] ?? null) : null;
}

/**
 * The address of a database by a PgBouncer that lends sessions for one transaction each, few of them. It ends with the
 * test.
 */
export async function startPgbouncer(databaseUrl: string, settings: readonly string[] = []): Promise<string> {
  const { username, hostname, port, pathname } = new URL(databaseUrl);
  const dir = mkdtempSync(path.join(tmpdir(), "millrace-pgbouncer-"));
  const isRoot = process.getuid?.() === 0;
  if (isRoot) chownSync(dir, NOBODY, NOBODY);
  chmodSync(dir, 0o755);
  writeFileSync(path.join(dir, "users.txt"), `"${username}" ""\n`);
  const lines = [
    "[databases]",
    `* = host=${decodeURIComponent(hostname)} port=${port || 5432}`,
    "[pgbouncer]",
    "listen_port = 5432",
    `unix_socket_dir = ${dir}`,
    "auth_type = trust",
    `auth_file = ${path.join(dir, "users.txt")}`,
    "pool_mode = transaction",
    "default_pool_size = 6",
    "max_client_conn = 500",
    ...settings,
  ];
  const file = path.join(dir, "pgbouncer.ini");
  writeFileSync(file, `${lines.join("\n")}\n`);
  const bouncer = spawn("pgbouncer", [file], {
    env: PATH,
    ...(isRoot && { uid: NOBODY, gid: NOBODY }),
    stdio: ["ignore", "ignore", "pipe"],
  });
  onTestFinished(async () => {
    const exited = once(bouncer, "exit");
    if (bouncer.exitCode === null && bouncer.kill("SIGKILL")) await exited;
    rmSync(dir, { recursive: true, force: true });
  });
  const said: string[] = [];
  for await (const line of createInterface(bouncer.stderr)) {
    said.push(line);
    if (!line.includes("process up")) continue;
    // Still read, so that it never waits for a full pipe.
    bouncer.stderr.resume();
    return `postgres://${username}@${encodeURIComponent(dir)}${pathname}`;
  }
  throw new Error(`PgBouncer did not start: ${said.join("\n")}`);
}
