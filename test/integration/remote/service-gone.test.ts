import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { freePort } from "../../support/free-port.ts";
import { processesIn } from "../../support/leak-check.ts";
import { isAlive } from "../../support/process-tree.ts";
import { seatFolder } from "../../support/remote/remote-service.ts";
import { writeApp } from "../../support/service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const SERVICE = path.join(REPOSITORY, "test", "support", "remote", "seat-service.ts");
const LONG_MS = 3_600_000;

type Told = { readonly text: string; readonly seats: readonly number[] };

/** What a service is started on, again and again. */
async function site() {
  const directory = await mkdtemp(path.join(tmpdir(), "millrace-test-"));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const folder = await seatFolder();
  const app = await writeApp(path.join(directory, "app"), "app", { main: "def run():\n    return 5\n" });
  const { databaseUrl } = await databases.fresh("postgres");
  const seatPort = await freePort();
  const start = async (graceMs: number) => {
    const args = [SERVICE, directory, databaseUrl ?? "", app, folder, String(seatPort), String(graceMs)];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => void child.kill("SIGKILL"));
    const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
    return { child, ...(JSON.parse(line) as Told) };
  };
  return { folder, start };
}

verifies("seats.alone", "kill -9 of the service: its seats end themselves after the grace", async () => {
  const { folder, start } = await site();
  const { child, text, seats } = await start(3_000);
  expect(JSON.parse(text)).toMatchObject({ result: 5 });
  child.kill("SIGKILL");
  await until("its seats have ended", () => seats.every((pid) => !isAlive(pid)));
  await until("with all they started", () => processesIn(folder).length === 0);
});

verifies(
  "seats.restart",
  "a restarted service tells the seats of the one before to end, and has its own",
  async () => {
    const { start } = await site();
    const before = await start(LONG_MS);
    before.child.kill("SIGKILL");
    const after = await start(LONG_MS);
    expect(JSON.parse(after.text)).toMatchObject({ result: 5 });
    await until("those of the one before have ended", () => before.seats.every((pid) => !isAlive(pid)));
    expect(after.seats.every(isAlive)).toBe(true);
    after.child.kill("SIGTERM");
    await once(after.child, "exit");
    expect(after.seats.some(isAlive)).toBe(false);
  },
);
