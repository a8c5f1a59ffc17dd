import { existsSync, readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect } from "vitest";
import type { StorageReport } from "../../../src/apps/storage-report.ts";
import { checkStorage } from "../../../src/cli/operator/doctor/data-checks.ts";
import type { Finding } from "../../../src/cli/operator/doctor/finding.ts";
import { readSettings } from "../../../src/config/settings.ts";
import { openStore } from "../../../src/store/store.ts";
import { inspectDatabase } from "../../../src/store/upkeep/whole-database.ts";
import { MILLRACE, run } from "../../support/command-line.ts";
import { testService, writeApp } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";
import { answer, during, scratch } from "../../integration/moved/site.ts";

const MAIN = 'def run():\n    print("hello " * 100)\n    return "x" * 5000\n';

verifies(
  ["cli.storage", "doctor.storage"],
  "storage prints who uses what, with the service up and down; doctor says how much of each bound",
  async () => {
    const folder = await scratch();
    const database = { databaseUrl: null, dataDir: path.join(folder, "data") };
    const env = { MILLRACE_DATA_DIR: database.dataDir };
    const asked = async (): Promise<StorageReport> => {
      const { stdout, stderr } = await run(MILLRACE, ["storage", "--json"], { env });
      if (stdout === "") throw new Error(stderr);
      return JSON.parse(stdout) as StorageReport;
    };
    const up = await during(database, async (service) => {
      for (const name of ["talker", "quiet"]) {
        await service.install(await writeApp(path.join(folder, "sources", name), name, { main: MAIN }));
      }
      await answer(service, "talker");
      await service.settle();
      return await asked();
    });
    const of = (report: StorageReport, app: string) => report.apps.find(({ name }) => name === app);
    expect(of(up, "talker")).toMatchObject({ runs: 1, builds: 1 });
    const down = await asked();
    const talker = of(down, "talker");
    expect(talker?.payloadBytes).toBeGreaterThan(5_000);
    expect(talker?.logBytes).toBeGreaterThan(600);
    expect(talker?.bundleBytes).toBeGreaterThan(0);
    expect(of(down, "quiet")).toMatchObject({ runs: 0, payloadBytes: 0, transcriptBytes: 0, logBytes: 0 });
    expect(down.databaseBytes).toBeGreaterThan(10_000);

    const { stdout } = await run(MILLRACE, ["storage"], { env });
    expect(stdout).toMatch(/^APP +RUNS +PAYLOADS +TRANSCRIPTS +LOGS +BUILDS +BUNDLES\n/);
    expect(stdout).toMatch(/\np-\w+-talker +1 +5\.\d KB +0 B +\d+ B +1 +\d/);
    expect(stdout).toMatch(/\nlogs +\d+ B of 2\.0 GB\n/);

    const report = await inspectDatabase(database, true);
    const findings = async (flags: object) =>
      await checkStorage(
        report,
        readSettings({ flags: { ...env, dataDir: database.dataDir, ...flags }, env: {} }).settings,
      );
    expect(await findings({})).toMatchObject([
      { check: "storage", status: "ok", message: expect.stringMatching(/^runs 1 of 10000000, payloads and/) },
    ]);
    expect(await findings({ maxRuns: 1 })).toMatchObject([
      { status: "warn", remedy: expect.stringContaining("raise MILLRACE_MAX_RUNS") },
    ]);
  },
);

verifies("cli.storage", "without a service the database stays as it is, byte by byte", async () => {
  const folder = await scratch();
  const dataDir = path.join(folder, "data");
  const env = { MILLRACE_DATA_DIR: dataDir };
  const asked = async () => await run(MILLRACE, ["storage"], { env });
  const none = await asked();
  expect([none.code, none.stderr]).toEqual([1, expect.stringContaining("nothing is stored in")]);
  expect(existsSync(dataDir)).toBe(false);

  await (await openStore({ dataDir, databaseUrl: null })).close();
  const file = path.join(dataDir, "millrace.db");
  const change = (statements: string): Buffer => {
    const database = new DatabaseSync(file);
    database.exec(statements);
    database.close();
    return readFileSync(file);
  };
  const before = readFileSync(file);
  expect(await asked()).toMatchObject({ code: 0, stdout: expect.stringContaining("APP") });
  expect(readFileSync(file).equals(before)).toBe(true);
  const newer = change("insert into migrations (name, timestamp) values ('9999-from-the-future', '')");
  expect(await asked()).toMatchObject({ code: 1, stderr: expect.stringContaining("from a newer release") });
  expect(readFileSync(file).equals(newer)).toBe(true);
  expect(readdirSync(dataDir).filter((name) => name.startsWith("millrace.db"))).toEqual(["millrace.db"]);
});

verifies(
  "cli.storage",
  "after an app was deleted both count its runs, and both tell the limits of the service",
  async () => {
    const main = "def run():\n    return 1\n";
    const apps = { kept: { main }, doomed: { main } };
    const test = await testService(apps, { maxRuns: 100, maxLogs: "50MB" });
    const { service, settings } = test;
    for (const app of ["kept", "doomed", "doomed"]) expect((await test.call(app)).status).toBe(200);
    await service.settle();
    const { projectId, token } = service.owner;
    const deleted = await fetch(`${service.baseUrl}/v2/projects/${projectId}/apps/${projectId}-doomed`, {
      method: "DELETE",
      headers: { authorization: `Bearer ${token}` },
    });
    expect(deleted.ok).toBe(true);
    // Whoever asks has set nothing of it. What is installed here takes its time to answer.
    const env = { MILLRACE_DATA_DIR: settings.dataDir, MILLRACE_CONTAINER_ENGINE: "none" };
    const { stdout } = await run(MILLRACE, ["storage"], { env });
    expect(stdout).toMatch(/\n\(deleted apps\) +2 /);
    expect(stdout).toMatch(/\nruns +3 of 100\n/);
    expect(stdout).toMatch(/\nlogs +\d+ B of 50\.0 MB\n/);
    const doctor = await run(MILLRACE, ["doctor", "--json"], { env });
    const findings = JSON.parse(doctor.stdout) as Finding[];
    expect(findings.find(({ check }) => check === "storage")?.message).toMatch(
      /^runs 3 of 100, .* of 50\.0 MB,/,
    );
  },
);
