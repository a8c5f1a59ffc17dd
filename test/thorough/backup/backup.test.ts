import { mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { TarWriter } from "../../../src/kit/tar/archive.ts";
import { MILLRACE, installed, run, scratchDirectory } from "../../support/command-line.ts";
import { type TestDatabase, testDatabases, triedKinds } from "../../support/databases.ts";
import { KillableService } from "../../support/killable-service.ts";
import { type TestService, testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";
import { millrace, modeOf } from "../../integration/backup/saved.ts";

const databases = testDatabases();

/** A service on an installation that was restored. */
async function restoredService({ dataDir, databaseUrl }: TestDatabase): Promise<TestService> {
  return await testService({}, { dataDir, ...(databaseUrl !== null && { databaseUrl }) });
}

describe.each(triedKinds("sqlite"))("with the service down, on %s", (kind) => {
  verifies("operations.backup", "a backup restored elsewhere is the same installation", async () => {
    const database = await databases.fresh(kind);
    const { dataDir, databaseUrl } = database;
    const main = "def run(n):\n    return [n + 1, __file__]\n";
    const service = await KillableService.deploy(database, { main }, {}, false);
    const storage = path.join(dataDir, "storage", service.projectId);
    const long = path.join("a".repeat(120), "b".repeat(120));
    mkdirSync(path.join(storage, path.dirname(long)), { recursive: true });
    writeFileSync(path.join(storage, long), "deep", { mode: 0o640 });
    symlinkSync(long, path.join(storage, "link"));
    symlinkSync("/etc/passwd", path.join(storage, "outside"));
    symlinkSync("../../master.key", path.join(storage, "key"));

    const file = path.join(scratchDirectory(), "backup.tar");
    const env: Record<string, string> = databaseUrl === null ? {} : { MILLRACE_DATABASE_URL: databaseUrl };
    const owner = await installed(dataDir, env);
    const saved = await millrace(["backup", file, "--json"], { MILLRACE_DATA_DIR: dataDir, ...env });
    const outside = ["key", "outside"].map((name) => `storage/${service.projectId}/${name}`);
    expect(saved["left_out"]).toEqual(outside);
    expect(saved["database_command"]).toEqual(kind === "sqlite" ? null : expect.stringContaining("pg_dump"));
    // Any tar reads it.
    const listed = await run("tar", ["-tf", file]);
    expect(listed.stdout).toContain(`storage/${service.projectId}/${long}\n`);

    // Postgres stays where it is: its dump and its restore are its own.
    const restored = { databaseUrl, dataDir: path.join(scratchDirectory(), "new") };
    await millrace(["restore", file, "--json", "--data-dir", restored.dataDir], env);
    const copied = path.join(restored.dataDir, "storage", service.projectId);
    expect(readFileSync(path.join(copied, "link"), "utf8")).toBe("deep");
    expect(modeOf(path.join(copied, long))).toBe("640");
    expect(await installed(restored.dataDir, env)).toEqual(owner);
    const again = await restoredService(restored);
    const { result } = (await again.call("app", { n: 1 })).json;
    // Its bundles are its own.
    expect(result).toEqual([2, expect.stringContaining(`${restored.dataDir}/bundles/`)]);
  });
});

/** An archive whose data entries a test writes. */
async function archive(write: (tar: TarWriter) => Promise<void>): Promise<string> {
  const file = path.join(scratchDirectory(), "made.tar");
  const tar = await TarWriter.create(file);
  const manifest = { format: 2, version: "0", created_at: "", store: "sqlite", data_dir: "/nowhere" };
  await tar.addBytes("manifest.json", Buffer.from(JSON.stringify(manifest)), 0);
  await write(tar);
  await tar.finish();
  return file;
}

async function refusal(file: string, dataDir: string): Promise<string> {
  const { code, stderr } = await run(MILLRACE, ["restore", file, "--data-dir", dataDir]);
  expect(code).toBe(1);
  return stderr;
}

verifies(
  "operations.restore.checked",
  "a name or a link that leads out of the directory is refused",
  async () => {
    const bytes = Buffer.from("x");
    const cases: ((tar: TarWriter) => Promise<void>)[] = [
      (tar) => tar.addBytes("../escaped", bytes, 0),
      (tar) => tar.addBytes("/tmp/escaped", bytes, 0),
      (tar) => tar.addBytes("storage/../../escaped", bytes, 0),
      (tar) => tar.addLink("storage/p/link", "/etc/passwd", 0),
      (tar) => tar.addLink("storage/p/link", "../../master.key", 0),
      (tar) => tar.addLink("storage/p/link", "here/../../../master.key", 0),
      async (tar) => {
        await tar.addBytes("twice", bytes, 0);
        await tar.addBytes("twice", bytes, 0);
      },
      async (tar) => {
        await tar.addLink("storage/p/link", "sub", 0);
        await tar.addBytes("storage/p/link/file", bytes, 0);
      },
      async (tar) => {
        await tar.addBytes("storage/p/a/b/file", bytes, 0);
        await tar.addLink("storage/p/a/b/up", "../..", 0);
        await tar.addLink("storage/p/a/b/up/out", "../../..", 0);
      },
    ];
    for (const write of cases) {
      const parent = scratchDirectory();
      await refusal(await archive(write), path.join(parent, "data"));
      expect(readdirSync(parent)).toEqual([]);
    }
  },
);

verifies("operations.restore.checked", "a directory with something in it is left as it is", async () => {
  const dataDir = scratchDirectory();
  writeFileSync(path.join(dataDir, "mine"), "");
  expect(await refusal("/dev/null", dataDir)).toMatch(/is not empty/);
  expect(readdirSync(dataDir)).toEqual(["mine"]);
});

verifies(
  "operations.restore.checked",
  "an archive that was cut, changed or damaged leaves nothing; whole, a sound database with no log beside it",
  async () => {
    const database = await databases.fresh("sqlite");
    await installed(database.dataDir);
    const folder = scratchDirectory();
    const whole = path.join(folder, "whole.tar");
    await millrace(["backup", whole, "--json"], { MILLRACE_DATA_DIR: database.dataDir });
    const bytes = readFileSync(whole);
    const broken = path.join(folder, "broken.tar");
    const changed = Buffer.from(bytes);
    changed[Math.floor(bytes.length / 2)]! ^= 1;
    for (const content of [
      bytes.subarray(0, bytes.length / 2),
      changed,
      bytes.subarray(0, -2_048),
      Buffer.alloc(0),
    ]) {
      writeFileSync(broken, content);
      expect(await refusal(broken, path.join(folder, "data"))).toMatch(/not a readable archive/);
    }
    expect(readdirSync(folder).toSorted()).toEqual(["broken.tar", "whole.tar"]);
    const dataDir = path.join(folder, "data");
    await millrace(["restore", whole, "--json", "--data-dir", dataDir], {});
    expect(readdirSync(dataDir).toSorted()).toEqual(["master.key", "millrace.db", "owner-token"]);
    const copy = new DatabaseSync(path.join(dataDir, "millrace.db"), { readOnly: true });
    expect(Object.values(copy.prepare("pragma integrity_check").get() ?? {})).toEqual(["ok"]);
    copy.close();
  },
);

test("a backup does not overwrite, and does not begin where there is nothing", async () => {
  const folder = scratchDirectory();
  const file = path.join(folder, "there.tar");
  writeFileSync(file, "mine");
  const refused = await run(MILLRACE, ["backup", file, "--data-dir", folder]);
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("already exists")]);
  const nothing = await run(MILLRACE, ["backup", path.join(folder, "x.tar"), "--data-dir", `${folder}/none`]);
  expect([nothing.code, nothing.stderr]).toEqual([
    1,
    expect.stringContaining("not a Millrace data directory"),
  ]);
  expect(readdirSync(folder)).toEqual(["there.tar"]);
});
