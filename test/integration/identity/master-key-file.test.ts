import { chmodSync, copyFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import { startService } from "../../../src/main.ts";
import { MILLRACE, run, scratchDirectory } from "../../support/command-line.ts";
import { type TestDatabase, testDatabases } from "../../support/databases.ts";
import { testSettings } from "../../support/test-settings.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

/** Starts with a key file, and stops. */
async function startWith({ dataDir, databaseUrl }: TestDatabase, masterKeyFile?: string): Promise<void> {
  const flags = { dataDir, apiPort: 0, basePort: 0, ...(databaseUrl !== null && { databaseUrl }) };
  const named = masterKeyFile === undefined ? {} : { masterKeyFile };
  await (await startService(testSettings({ ...flags, ...named }), { log: createLog("silent") })).stop();
}

verifies("nodes.key-file", "a second service on the database reads the key that it is named", async () => {
  const first = await databases.fresh("postgres");
  await startWith(first);
  const second = { ...first, dataDir: scratchDirectory() };
  await expect(startWith(second)).rejects.toThrow(/not the master key of .* MILLRACE_MASTER_KEY_FILE/);
  const named = path.join(scratchDirectory(), "installation.key");
  copyFileSync(path.join(first.dataDir, "master.key"), named);
  await startWith({ ...first, dataDir: scratchDirectory() }, named);
});

verifies("nodes.key-file", "a file that is missing, open to others, or no key is refused", async () => {
  const database = await databases.fresh("sqlite");
  const file = path.join(scratchDirectory(), "key");
  await expect(startWith(database, file)).rejects.toThrow(`MILLRACE_MASTER_KEY_FILE: ${file} does not exist`);
  expect([existsSync(file), existsSync(path.join(database.dataDir, "master.key"))]).toEqual([false, false]);
  await expect(startWith(database, path.dirname(file))).rejects.toThrow("is not a file");
  writeFileSync(file, `${Buffer.alloc(32, 7).toString("base64")}\n`);
  chmodSync(file, 0o604);
  await expect(startWith(database, file)).rejects.toThrow(`chmod 600 ${file}`);
  chmodSync(file, 0o600);
  writeFileSync(file, "too short\n");
  await expect(startWith(database, file)).rejects.toThrow("does not hold a master key");
});

verifies(
  "nodes.key-file",
  "a backup holds the key that is named, and restore says where it went",
  async () => {
    const { dataDir } = await databases.fresh("sqlite");
    const folder = scratchDirectory();
    const key = path.join(folder, "key");
    writeFileSync(key, `${Buffer.alloc(32, 7).toString("base64")}\n`, { mode: 0o600 });
    await startWith({ dataDir, databaseUrl: null }, key);
    // Of an earlier life: not the one in use.
    writeFileSync(path.join(dataDir, "master.key"), "stale", { mode: 0o600 });
    const env = { MILLRACE_MASTER_KEY_FILE: key };
    const [file, restored] = [path.join(folder, "backup.tar"), path.join(folder, "restored")];
    const saved = await run(MILLRACE, ["backup", file, "--data-dir", dataDir], { env });
    expect([saved.code, saved.stderr]).toEqual([0, ""]);
    const back = await run(MILLRACE, ["restore", file, "--data-dir", restored], { env });
    expect(back.stdout).toContain(`make sure that ${key} holds the same`);
    expect(readFileSync(path.join(restored, "master.key"), "utf8")).toBe(readFileSync(key, "utf8"));
    await startWith({ dataDir: restored, databaseUrl: null });
  },
);
