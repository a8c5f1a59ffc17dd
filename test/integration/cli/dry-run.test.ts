import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "./client.ts";

const shared = sharedService();

verifies("deploy.dry-run", "deploy --dry-run tells what a deploy would do, and changes nothing", async () => {
  const { settings, service } = shared();
  const client = new Client(shared());
  const folder = path.join(client.cwd, "app");
  mkdirSync(folder);
  writeFileSync(path.join(folder, "main.py"), "def run():\n    return 1\n");
  const good = await client.ok("deploy", "app", "--dry-run");
  expect(good).toMatch(
    /^A deploy would create the app app:\n {2}run as a process of this host\n {2}use Python \S+ \(\S+\)\n {2}run 0 to \d+ replicas.*\nNothing was changed\.\n$/,
  );
  writeFileSync(path.join(folder, "other.py"), "def f(:\n");
  writeFileSync(path.join(folder, "millrace.toml"), '[dependencies.conda]\ncuda = "12"\n');
  const bad = await client.run("deploy", "app", "--dry-run");
  expect([bad.code, bad.stderr]).toEqual([1, ""]);
  expect(bad.stdout).toMatch(
    /\nproblem: Conda packages .*\nproblem: other\.py, line 1: SyntaxError.*\nIt would fail\. Nothing was changed\.\n$/,
  );
  const told = await client.run("deploy", "app", "--dry-run", "--disable-syntax-check", "--json");
  expect([told.code, JSON.parse(told.stdout)]).toEqual([
    1,
    expect.objectContaining({ app: "app", isNew: true, problems: [expect.stringMatching(/^Conda/)] }),
  ]);
  // A bundle that is refused before it is unpacked.
  const url = `${service.baseUrl}/v2/projects/${service.owner.projectId}/deploys/dry-run?name=app`;
  const headers = {
    authorization: `Bearer ${service.owner.token}`,
    "content-type": "application/zip",
  };
  const refused = await fetch(url, { method: "POST", headers, body: "not a zip" });
  expect(await refused.json()).toMatchObject({ problems: ["The upload is not a zip."] });
  // No app, no build, no file.
  expect(await service.store.apps.listAll()).toEqual([]);
  for (const name of ["work", "uploads", "environments", "bundles"])
    expect([name, entries(path.join(settings.dataDir, name))]).toEqual([name, []]);
  const detached = await client.run("deploy", "app", "--dry-run", "--detach");
  expect(detached.code).toBe(2);
});

function entries(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // It was never made.
  }
}
