import { spawn } from "node:child_process";
import { once } from "node:events";
import { statSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { DirectoryInUseError, lockDirectory } from "../../../src/store/upkeep/directory-lock.ts";
import { openStore } from "../../../src/store/store.ts";
import { testDatabases } from "../../support/databases.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const LOCK = new URL("../../../src/store/upkeep/directory-lock.ts", import.meta.url).href;
const HOLDER = `
  const { lockDirectory } = await import("${LOCK}");
  globalThis.lock = lockDirectory(process.argv[1]);
  process.stdout.write("held");
  process.stdin.resume();
`;

/** A process that holds the directory until it is killed. */
async function startHolder(dataDir: string) {
  const child = spawn(process.execPath, ["--input-type=module", "-e", HOLDER, dataDir], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  // Also when the test fails or runs out of time.
  onTestFinished(() => void child.kill("SIGKILL"));
  const [said] = (await once(child.stdout, "data")) as [Buffer];
  expect(said.toString()).toBe("held");
  const kill = async () => {
    child.kill("SIGKILL");
    await exited;
  };
  return { pid: child.pid!, kill };
}

verifies(
  "directory.freed-by-death",
  "a second process is refused while the first lives, and let in after kill -9 of the first",
  async () => {
    const { dataDir } = await databases.fresh("sqlite");
    const holder = await startHolder(dataDir);
    expect(() => lockDirectory(dataDir)).toThrow(DirectoryInUseError);
    expect(() => lockDirectory(dataDir)).toThrow(
      `the data directory ${dataDir} is in use by another Millrace (process ${holder.pid}): ` +
        "stop that one, or choose another directory with MILLRACE_DATA_DIR",
    );
    await holder.kill();
    lockDirectory(dataDir).release();
  },
);

test("the lock holds within one process too, until it is released", async () => {
  const { dataDir } = await databases.fresh("sqlite");
  const lock = lockDirectory(dataDir);
  expect(() => lockDirectory(dataDir)).toThrow(DirectoryInUseError);
  lock.release();
  lock.release();
  lockDirectory(dataDir).release();
});

test("a locked directory can be opened by the one who holds it", async () => {
  const database = await databases.fresh("sqlite");
  const lock = lockDirectory(database.dataDir);
  const store = await openStore(database);
  expect(await store.people.hasAny()).toBe(false);
  expect(() => lockDirectory(database.dataDir)).toThrow(DirectoryInUseError);
  await store.close();
  lock.release();
});

test("only the owner can read what is stored", async () => {
  const { dataDir } = await databases.fresh("sqlite");
  // Apart, so that each makes its own directory.
  const locked = join(dataDir, "made", "locked");
  const stored = join(dataDir, "made", "stored");
  const lock = lockDirectory(locked);
  const store = await openStore({ databaseUrl: null, dataDir: stored });
  await store.meta.setIfAbsent({ key: "a", value: "b" });
  const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);
  expect([modeOf(locked), modeOf(stored)]).toEqual(["700", "700"]);
  const files = ["millrace.db", "millrace.db-wal", "millrace.db-shm"].map((name) => join(stored, name));
  expect([...files, join(locked, "lock.pid")].map(modeOf)).toEqual(["600", "600", "600", "600"]);
  await store.close();
  lock.release();
});
