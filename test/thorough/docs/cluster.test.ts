import { internals } from "../../support/test-settings.ts";
import { copyFileSync, existsSync, mkdirSync, statSync, symlinkSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { Command, MILLRACE, scratchDirectory } from "../../support/command-line.ts";
import { testDatabases } from "../../support/databases.ts";
import { commandsOf, tryCommand } from "../../support/document-commands.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

/** What the document has one type, in that order. */
const COMMANDS = [
  "openssl rand -base64 32 > /etc/millrace/master.key",
  "chmod 600 /etc/millrace/master.key",
  "millrace doctor",
  "millrace serve",
  "millrace nodes",
  "millrace nodes drain right",
  "millrace nodes drain right --undo",
  "millrace backup /var/backups/millrace.tar",
  "millrace restore /var/backups/millrace.tar --data-dir /var/lib/millrace-restored",
];

/** A machine of its own, as far as the commands see: folders, settings and a name. */
class Host {
  readonly folder = scratchDirectory();
  readonly #settings: Record<string, string>;

  constructor(name: string, databaseUrl: string, blobs: string) {
    for (const folder of ["bin", "etc/millrace", "var/backups", "var/lib"])
      mkdirSync(path.join(this.folder, folder), { recursive: true });
    symlinkSync(MILLRACE, path.join(this.folder, "bin", "millrace"));
    this.#settings = {
      PATH: `${path.join(this.folder, "bin")}:${process.env["PATH"]}`,
      MILLRACE_DATABASE_URL: databaseUrl,
      MILLRACE_MASTER_KEY_FILE: this.path("/etc/millrace/master.key"),
      MILLRACE_BLOBS: blobs,
      MILLRACE_DATA_DIR: this.path("/var/lib/millrace"),
      ...internals({ nodeName: name }),
      MILLRACE_API_PORT: "0",
      MILLRACE_BASE_PORT: "0",
      MILLRACE_ISOLATION: "none",
      MILLRACE_CONTAINER_ENGINE: "none",
    };
  }

  path(named: string): string {
    return path.join(this.folder, named);
  }

  /** Does what the document says on this machine. */
  async try(command: string): Promise<string> {
    const here = command.replaceAll(/\/(?=etc|var)/g, `${this.folder}/`);
    return await tryCommand(here, { cwd: this.folder, env: this.#settings });
  }

  /** Starts its service. */
  async serve(): Promise<void> {
    const service = new Command(MILLRACE, ["serve"], { cwd: this.folder, env: this.#settings });
    onTestFinished(async () => {
      service.child.kill("SIGTERM");
      await service.exited;
    });
    await service.printed(/millrace is up/);
  }
}

verifies("docs.blocks", "the commands of docs/cluster.md make an installation of two nodes", async () => {
  expect(commandsOf("docs/cluster.md")).toEqual(COMMANDS);
  const [
    makeKey = "",
    closeKey = "",
    doctor = "",
    ,
    nodes = "",
    drain = "",
    undo = "",
    backup = "",
    restore = "",
  ] = COMMANDS;
  const { databaseUrl } = await databases.fresh("postgres");
  const blobs = scratchDirectory();
  const left = new Host("left", databaseUrl ?? "", blobs);
  const right = new Host("right", databaseUrl ?? "", blobs);
  await left.try(makeKey);
  await left.try(closeKey);
  const key = "/etc/millrace/master.key";
  copyFileSync(left.path(key), right.path(key));
  expect(await left.try(doctor)).toMatch(/^ok +master key/m);
  await left.serve();
  await right.serve();
  await until("both are there", async () => {
    const seen = await left.try(nodes);
    return /^\* +left .* live /m.test(seen) && / right .* live /m.test(seen);
  });
  expect(await right.try(nodes)).toMatch(/^\* +right .* live /m);
  expect(await right.try(doctor)).toMatch(/^ok +other nodes +reached left$/m);
  expect(await left.try(drain)).toBe("right hands its apps over and takes no more.\n");
  expect(await right.try(nodes)).toMatch(/^\* +right .* leaving /m);
  expect(await left.try(undo)).toBe("right takes apps again.\n");
  expect(await left.try(backup)).toContain("master.key");
  expect(await left.try(restore)).toContain("is restored");
  const restored = left.path("/var/lib/millrace-restored/master.key");
  expect([existsSync(restored), statSync(restored).mode & 0o777]).toEqual([true, 0o600]);
});
