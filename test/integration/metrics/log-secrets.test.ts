import { Writable } from "node:stream";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { testSettings } from "../../support/test-settings.ts";
import { createLog } from "../../../src/kit/log.ts";
import { startService } from "../../../src/main.ts";
import { assertNothingLeft } from "../../support/leak-check.ts";
import { TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const APP = {
  main: `
def run(password):
    return {"echo": password}

def fail(password):
    raise ValueError("no")

def die(password):
    import os
    os._exit(3)
`,
  toml: "[scaling]\nmax_replicas = 1\n",
};

verifies("operations.logs", "a busy service logs none of the secrets it met", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "millrace-test-"));
  let logged = "";
  const stream = new Writable({
    write: (chunk, _, done) => {
      logged += String(chunk);
      done();
    },
  });
  const flags = {
    dataDir: path.join(directory, "data"),
    apiPort: 0,
    basePort: 0,
    webhookAllow: "127.0.0.0/8",
  };
  const settings = testSettings(flags);
  const service = await startService(settings, { log: createLog("trace", stream) });
  onTestFinished(async () => {
    await service.stop();
    await assertNothingLeft(directory);
    await rm(directory, { recursive: true, force: true });
  });
  const test = new TestService(service, settings, directory, []);
  await test.deploy("app", APP);
  const { baseUrl, owner } = service;
  const manage = async (method: string, place: string, body?: object, token = owner.token) =>
    await fetch(`${baseUrl}${place}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...(body && { body: JSON.stringify(body) }),
    });
  const project = `/v2/projects/${owner.projectId}`;
  const secrets = {
    body: "in-the-body-4711",
    callerSecret: "callers-webhook-secret-4712",
    webhookPath: "in-the-webhooks-query-4713",
    appSecret: "an-apps-secret-4714",
    badToken: "not-a-token-4715",
  };

  const hook = `webhookEndpoint=${encodeURIComponent(`http://127.0.0.1:9/h?token=${secrets.webhookPath}`)}`;
  const headers = { "x-webhook-secret": secrets.callerSecret };
  for (const functionName of ["run", "fail", "die"]) {
    for (const suffix of ["", `?${hook}`, `?async=true&${hook}`]) {
      await test.call("app", { password: secrets.body }, { functionName, suffix, headers });
    }
  }
  await test.call("app", { password: secrets.body }, { token: secrets.badToken });
  await test.call("app", `{"password": "${secrets.body}`);
  const made = await manage("POST", `${project}/service-accounts`, { name: "ci" });
  const { token } = (await made.json()) as { token: string };
  expect(made.status).toBe(200);
  const set = await manage("PATCH", `${project}/secrets`, { KEY: secrets.appSecret });
  expect(set.status).toBe(200);
  const signing = await manage("POST", `${project}/webhook-secrets`);
  const { secret } = (await signing.json()) as { secret: string };
  await manage("GET", `${project}/secrets?token=${token}`, undefined, secrets.badToken);
  await fetch(`${baseUrl}/ws-logs?projectID=${owner.projectId}&token=${token}`).catch(() => null);
  const masterKey = (await readFile(path.join(settings.dataDir, "master.key"), "utf8")).trim();
  await until("the crash is logged", () => logged.includes("replica ended"));
  // A fault of ours carries whatever it was about.
  await service.store.close();
  await test.call("app", { password: secrets.body }, { suffix: "?async=true" });
  await manage("GET", `${project}/secrets`);
  await until("a fault is logged", () => logged.includes('"err"'));

  const all = { ...secrets, token, secret, masterKey, owner: owner.token };
  expect(Object.entries(all).filter(([, text]) => text.length < 10 || logged.includes(text))).toEqual([]);
});
