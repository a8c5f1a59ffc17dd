import { existsSync } from "node:fs";
import { readdir, rm, symlink, unlink } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import type { Finding } from "../../../src/cli/operator/doctor/finding.ts";
import { MILLRACE, run, serviceEnvironment } from "../../support/command-line.ts";
import { writeApp } from "../../support/service.ts";
import { ISOLATION } from "../../support/test-settings.ts";
import { verifies } from "../../verifies.ts";
import { POLITE, answer, deployPolite, during, scratch } from "../../integration/moved/site.ts";

async function doctor(
  dataDir: string,
  ...options: string[]
): Promise<(check: string) => Finding | undefined> {
  // What is installed here is no subject of these tests, nor are walls, and both take their time to answer.
  const usual = { MILLRACE_CONTAINER_ENGINE: "none", MILLRACE_ISOLATION: ISOLATION };
  const env = { ...serviceEnvironment(dataDir), ...usual };
  const { stdout, stderr } = await run(MILLRACE, ["doctor", "--json", ...options], { env });
  if (stdout === "") throw new Error(stderr);
  const findings = JSON.parse(stdout) as Finding[];
  return (check) => findings.find((finding) => finding.check === check);
}

async function environmentIn(dataDir: string): Promise<string> {
  const folder = path.join(dataDir, "environments");
  const [name = ""] = await readdir(folder);
  return path.join(folder, name);
}

verifies(
  "moved.says-what",
  "a missing bundle, environment or interpreter is named, with what to do",
  async () => {
    const folder = await scratch();
    const database = { databaseUrl: null, dataDir: path.join(folder, "data") };
    const environment = await during(database, async (service) => {
      await deployPolite(service, folder);
      await service.install(
        await writeApp(path.join(folder, "sources", "plain"), "plain", {
          main: "def run():\n    return 1\n",
        }),
      );
      const found = await environmentIn(database.dataDir);
      await rm(path.join(database.dataDir, "bundles", service.owner.projectId, "plain"), { recursive: true });
      expect(await answer(service, "plain")).toMatch(
        /^503 The app cannot start: its bundle bundles\/p-\w+\/plain\/[\w-]+ is missing: deploy the app again, or restore a backup\.$/,
      );
      await rm(found, { recursive: true });
      return found;
    });
    const name = `environments/${path.basename(environment)}`;
    await during(database, async (service) => {
      expect(await answer(service)).toBe(
        `503 The app cannot start: its environment ${name} is missing: run \`millrace doctor --repair\`, or deploy the app again.`,
      );
    });
    const of = await doctor(database.dataDir);
    expect(of("apps")).toMatchObject({ status: "fail" });
    await doctor(database.dataDir, "--repair");
    await unlink(path.join(environment, "bin", "python"));
    await symlink("/no/such/python3.11", path.join(environment, "bin", "python"));
    await during(database, async (service) => {
      expect(await answer(service)).toBe(
        `503 The app cannot start: the interpreter of its environment ${name} is missing (/no/such/python3.11): run \`millrace doctor --repair\`, or deploy the app again.`,
      );
    });
  },
);

verifies("doctor.repair", "packages are installed again, with the service down and with it up", async () => {
  const folder = await scratch();
  const database = { databaseUrl: null, dataDir: path.join(folder, "data") };
  const { dataDir } = database;
  const environment = await during(database, async (service) => {
    await deployPolite(service, folder);
    return await environmentIn(dataDir);
  });
  expect((await doctor(dataDir))("apps")).toMatchObject({
    status: "ok",
    message: "1 version has all it needs to start",
  });
  await rm(environment, { recursive: true });
  expect((await doctor(dataDir))("apps")).toMatchObject({
    status: "fail",
    message: expect.stringMatching(/^p-\w+-polite, version 1: its environment .* is missing$/),
    remedy: "millrace doctor --repair installs its packages again",
  });
  const mended = await doctor(dataDir, "--repair");
  expect(mended("repair")).toMatchObject({
    status: "ok",
    message: expect.stringContaining("reinstalled its packages"),
  });
  expect(mended("apps")).toMatchObject({ status: "ok" });
  await during(database, async (service) => {
    expect(await answer(service)).toEqual(POLITE);
    await rm(environment, { recursive: true });
    const again = await doctor(dataDir, "--repair");
    expect(again("repair")).toMatchObject({
      status: "ok",
      message: expect.stringContaining("polite, version 1"),
    });
    expect(existsSync(environment)).toBe(true);
    expect((await doctor(dataDir, "--repair"))("repair")?.message).toBe("nothing needed repair");
  });
  expect(await during(database, (service) => answer(service))).toEqual(POLITE);
});
