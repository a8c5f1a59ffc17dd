import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { beforeAll, expect, test } from "vitest";
import { ManagementSite } from "../../support/management-site.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const service = sharedService({ hello: { main: "def run():\n    return 1\n" } });
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});

verifies("secrets.map", "a map is replaced as a whole, the project's and each app's on its own", async () => {
  const app_id = `${site.projectId}-hello`;
  expect((await site.call("getProjectSecrets")).json).toEqual({});
  await site.call("replaceProjectSecrets", {}, { body: { A: "1", B: "ü\n☃ 😀" } });
  await site.call("replaceAppSecrets", { app_id }, { body: { A: "of the app" } });
  const got = await site.call("getProjectSecrets", {}, { as: "deploy" });
  expect([got.json, got.headers.get("cache-control")]).toEqual([{ A: "1", B: "ü\n☃ 😀" }, "no-store"]);
  await site.call("replaceProjectSecrets", {}, { body: { C: "" } });
  expect((await site.call("getProjectSecrets")).json).toEqual({ C: "" });
  expect((await site.call("getAppSecrets", { app_id })).json).toEqual({ A: "of the app" });
  await site.call("replaceAppSecrets", { app_id }, { body: {} });
  expect((await site.call("getAppSecrets", { app_id })).json).toEqual({});
  expect((await site.ask("PATCH", "apps/none/secrets", { body: {} })).status).toBe(404);
});

verifies("secrets.keys", "keys are letters, digits, dot, dash and underscore, 1 to 253 of them", async () => {
  const good = ["A", "a.b-c_D9", "k".repeat(253), "toString", "constructor"];
  const body = Object.fromEntries(good.map((key) => [key, key]));
  expect((await site.call("replaceProjectSecrets", {}, { body })).json).toEqual(body);
  for (const key of ["", "k".repeat(254), "a b", "a=b", "ä", "a/b", "a\n", "__proto__"]) {
    const sent = `{${JSON.stringify(key)}:"x"}`;
    const { status, json } = await site.ask("PATCH", "secrets", { body: sent });
    expect([key, status, json.code]).toEqual([key, 400, "bad_request"]);
  }
  for (const value of [1, null, true, {}, ["x"]]) {
    expect((await site.ask("PATCH", "secrets", { body: { A: value } })).status).toBe(400);
  }
  for (const whole of ["[]", '"x"', "null", ""]) {
    expect((await site.ask("PATCH", "secrets", { body: whole })).status).toBe(400);
  }
  expect((await site.call("getProjectSecrets")).json).toEqual(body);
});

verifies("secrets.encrypted", "no file of the data directory holds a secret as it is", async () => {
  const value = "an-unmistakable-value-0123456789";
  await site.call("replaceProjectSecrets", {}, { body: { KEY: value } });
  const { dataDir } = site.test.settings;
  const files = readdirSync(dataDir, { recursive: true, withFileTypes: true }).filter((file) =>
    file.isFile(),
  );
  expect(files.map(({ name }) => name)).toEqual(expect.arrayContaining(["millrace.db", "millrace.db-wal"]));
  for (const { parentPath, name } of files) {
    const bytes = readFileSync(path.join(parentPath, name));
    for (const form of [value, Buffer.from(value).toString("base64").slice(0, 40)]) {
      expect([name, bytes.includes(form)]).toEqual([name, false]);
    }
  }
});

test("one map may hold much, and no more than a body or 500 names", async () => {
  const map = (count: number, chars: number): Record<string, string> =>
    Object.fromEntries(Array.from({ length: count }, (_, place) => [`K${place}`, "x".repeat(chars)]));
  for (const large of [map(7, 64 * 1024), map(500, 1_000)]) {
    await site.call("replaceProjectSecrets", {}, { body: large });
    expect((await site.call("getProjectSecrets")).json).toEqual(large);
  }
  const refused = [map(1, 64 * 1024 + 1), map(8, 64 * 1024), map(501, 1)];
  const statuses: number[] = [];
  for (const body of refused) statuses.push((await site.ask("PATCH", "secrets", { body })).status);
  expect(statuses).toEqual([400, 413, 400]);
});
