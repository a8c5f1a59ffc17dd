import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { MILLRACE, installed, run, scratchDirectory } from "../../support/command-line.ts";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { LOST, SAMPLE_GPUS, ToldGpus } from "../../support/gpus/sample-gpus.ts";
import { testService } from "../../support/service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { offered } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";
import { doctor } from "./ask-doctor.ts";

const databases = testDatabases();
const [, OPERATIONS = ""] = readFileSync(path.join(REPOSITORY, "docs", "operations.md"), "utf8").split(
  "## When something is wrong",
);

for (const kind of triedKinds("sqlite")) {
  verifies(
    "operations.doctor",
    `on ${kind} all is well with a good installation, the walls too where the host has them`,
    async () => {
      const { dataDir, databaseUrl } = await databases.fresh(kind);
      const env: Record<string, string> = databaseUrl === null ? {} : { MILLRACE_DATABASE_URL: databaseUrl };
      await installed(dataDir, env);
      const { code, findings } = await doctor(dataDir, env);
      expect(code).toBe(0);
      const walls = (await offered()).userns === null ? "ok" : "warn";
      expect(findings.map(({ check, status }) => `${check} ${status}`)).toEqual([
        "data directory ok",
        "permissions ok",
        "master key ok",
        "lock ok",
        "database ok",
        "schema ok",
        "audit log ok",
        "apps ok",
        "disk ok",
        "storage ok",
        "node ok",
        "python ok",
        "python versions ok",
        "packages ok",
        `sandbox ${walls}`,
        `limits ${walls}`,
        `network ${walls}`,
        "gpus ok",
        "cuda ok",
        "images ok",
        "kubernetes ok",
        "ray ok",
        "ports ok",
        "app hosts ok",
        "node address ok",
        "other nodes ok",
        "clock ok",
      ]);
      // The document has a row for each, in the same order.
      expect([...OPERATIONS.matchAll(/^\| `([a-z ]+)` \| .* \|$/gm)].map(([, check]) => check)).toEqual(
        findings.map(({ check }) => check),
      );
    },
  );
}

verifies(
  ["operations.doctor", "control.backup-doctor"],
  "with the service up the database is asked for there, and nothing is disturbed",
  async () => {
    const dataDir = path.join(scratchDirectory(), "data");
    const { service } = await testService({}, { dataDir });
    const { code, of } = await doctor(dataDir);
    expect(code).toBe(0);
    expect(of("lock")?.message).toContain(
      `in use by process ${readFileSync(`${dataDir}/lock.pid`, "utf8").trim()}`,
    );
    expect([of("database")?.status, of("ports")?.message]).toEqual(["ok", "in use by the service"]);
    expect((await fetch(`${service.baseUrl}/readyz`)).status).toBe(200);
  },
);

verifies("operations.doctor", "each planted fault is found, and says what to do", async () => {
  const dataDir = path.join(scratchDirectory(), "data");
  await installed(dataDir);
  const taken = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void taken.close());
  await new Promise((resolve) => taken.once("listening", resolve));
  const port = (taken.address() as AddressInfo).port;
  chmodSync(dataDir, 0o755);
  chmodSync(path.join(dataDir, "master.key"), 0o644);
  writeFileSync(path.join(dataDir, "lock.pid"), "4194305\n");
  const { code, of } = await doctor(dataDir, {
    MILLRACE_PYTHON: "/no/such/python",
    MILLRACE_ISOLATION: "landlock",
    MILLRACE_DISK_RESERVE: "1000TB",
    MILLRACE_API_PORT: String(port),
  });
  expect(code).toBe(1);
  expect(of("data directory")).toMatchObject({ status: "warn", remedy: `chmod 700 ${dataDir}` });
  expect(of("permissions")).toMatchObject({ status: "fail", remedy: `chmod 600 ${dataDir}/master.key` });
  expect(of("lock")).toMatchObject({ status: "warn", message: "left behind by process 4194305" });
  expect(of("disk")?.status).toBe("fail");
  expect(of("python")?.status).toBe("fail");
  expect(of("sandbox")).toMatchObject({
    status: "fail",
    message: expect.stringContaining("MILLRACE_ISOLATION=landlock, but there is no Python"),
  });
  expect(of("ports")).toMatchObject({ status: "fail", message: expect.stringContaining(String(port)) });
});

verifies("hardware.doctor", "a running service is asked for the GPUs that it has seen fail", async () => {
  const { settings } = await testService({}, {}, new ToldGpus().options);
  const { code, findings } = await doctor(settings.dataDir);
  expect(code).toBe(1);
  const fault = SAMPLE_GPUS.find((gpu) => gpu.fault !== null);
  const found = findings.filter(
    ({ check, message }) => check === "gpus" && message.includes(fault?.uuid ?? ""),
  );
  expect(found).toMatchObject([{ status: "fail", message: expect.stringContaining(LOST) as string }]);
});

test("a directory that is not there, or empty, is no fault", async () => {
  const folder = scratchDirectory();
  mkdirSync(path.join(folder, "empty"), { mode: 0o700 });
  for (const name of ["none", "empty"]) {
    const { code, of } = await doctor(path.join(folder, name));
    expect([code, of("database")?.status]).toEqual([0, "warn"]);
  }
});

test("without --json there is a line for each check, and one below for what to do", async () => {
  const dataDir = path.join(scratchDirectory(), "none");
  const { stdout } = await run(MILLRACE, [
    "doctor",
    "--data-dir",
    dataDir,
    "--api-port",
    "0",
    "--base-port",
    "0",
  ]);
  expect(stdout).toMatch(/^warn {2}data directory {3}.* does not exist\n {23}→ the first start creates it/);
  expect(stdout).toMatch(/\nok {4}python {11}3\./);
});
