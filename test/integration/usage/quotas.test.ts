import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { beforeAll, describe, expect, onTestFinished } from "vitest";
import type { Quotas } from "../../../src/model/usage.ts";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { HOLDING_APP } from "../../support/holding-app.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { sampleEnd, sampleRun } from "../../support/sample-run.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "../cli/client.ts";

const service = sharedService({
  hello: { main: "def run():\n    return 1\n" },
  held: { main: HOLDING_APP, toml: "[scaling]\nmax_replicas = 3\n" },
  open: { main: "def run():\n    return 1\n", toml: "[deployment]\ndisable_auth = true\n" },
});
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});

async function account(quotas: Partial<Quotas> | null): Promise<{ id: string; token: string }> {
  const { json } = await site.call(
    "createServiceAccount",
    {},
    { body: { name: "limited", role: "run", quotas } },
  );
  return { id: String(json.id), token: String(json.token) };
}

describe("quotas", () => {
  verifies(
    ["quota.calls", "quota.headers"],
    "over its calls a minute, a token gets 429 until it changes",
    async () => {
      const { id, token } = await account({ callsPerMinute: 2 });
      const call = (suffix = "") => service().call("hello", {}, { token, suffix });
      expect([(await call()).status, (await call("?async=true")).status]).toEqual([200, 202]);
      const { status, json, headers } = await call();
      expect([status, json.code, json.error.type]).toEqual([429, "quota_exceeded", "rate_limit_error"]);
      expect(Number(headers.get("retry-after"))).toBeGreaterThan(50);
      expect(headers.get("ratelimit")).toBe(`"calls";r=0;t=${headers.get("retry-after")}`);
      expect(headers.get("ratelimit-policy")).toBe('"calls";q=2;w=60');
      expect((await service().call("hello", {}, { token: null, headers: {} })).status).toBe(401);
      await site.call("updateServiceAccount", { id }, { body: { quotas: { callsPerMinute: 3 } } });
      expect([(await call()).status, (await call()).status]).toEqual([200, 429]);
      await site.call("updateServiceAccount", { id }, { body: { quotas: null } });
      expect((await call()).status).toBe(200);
    },
  );

  verifies("quota.concurrent", "as many runs as it may have are in progress at a time", async () => {
    const { token } = await account({ concurrentRuns: 2 });
    const directory = service().bundleDir("held");
    onTestFinished(() => rmSync(path.join(directory, "go"), { force: true }));
    const call = () => service().call("held", {}, { token, functionName: "hold" });
    const held = [call(), call()];
    await until("both are executed", () => {
      const names = existsSync(directory) ? readdirSync(directory) : [];
      return names.filter((name) => name.startsWith("entered-")).length === 2;
    });
    const refused = await service().call("hello", {}, { token });
    expect([refused.status, refused.headers.get("ratelimit")]).toEqual([429, '"concurrent-runs";r=0;t=1']);
    expect((await service().call("hello")).status).toBe(200);
    writeFileSync(path.join(directory, "go"), "");
    expect((await Promise.all(held)).map(({ status }) => status)).toEqual([200, 200]);
    expect((await service().call("hello", {}, { token })).status).toBe(200);
  });

  verifies("quota.gpu", "a token that has used its GPU seconds of the day is refused", async () => {
    const { id, token } = await account({ gpuSecondsPerDay: 5 });
    const { number: appNumber } = service().apps.get("hello")!.app;
    const run = sampleRun({ appNumber, accountId: id, gpuMs: 5_000 });
    await service().service.store.runs.insertFinished([packEnded([sampleEnd(run)])]);
    let answer = await service().call("hello", {}, { token });
    await until("its use is known", async () => {
      answer = await service().call("hello", {}, { token });
      return answer.status !== 200;
    });
    expect([answer.status, answer.json.message]).toEqual([
      429,
      "This token may use 5 GPU seconds a day, in UTC.",
    ]);
    expect(answer.headers.get("ratelimit-policy")).toBe('"gpu-seconds";q=5;qu="gpu-seconds";w=86400');
  });

  verifies(
    "quota.project",
    "a project's quotas count its callers together, also those without a token",
    async () => {
      await site.call("updateProject", {}, { body: { quotas: { callsPerMinute: 2 } } });
      const statuses = [];
      for (const app of ["hello", "open", "open"])
        statuses.push((await service().call(app, {}, app === "open" ? { token: null } : {})).status);
      expect(statuses).toEqual([200, 200, 429]);
      const { headers } = await service().call("hello");
      expect(headers.get("ratelimit-policy")).toBe('"project-calls";q=2;w=60');
      await site.call("updateProject", {}, { body: { quotas: null } });
      expect((await service().call("hello")).status).toBe(200);
    },
  );

  verifies(
    "quota.set",
    "quotas are set and shown by the API and the command line, within bounds",
    async () => {
      const { id } = await account({ callsPerMinute: 5 });
      const listed = async () => {
        const { json } = await site.call("listServiceAccounts");
        return json.find((one: { id: string }) => one.id === id).quotas;
      };
      const none = { callsPerMinute: null, concurrentRuns: null, gpuSecondsPerDay: null };
      expect(await listed()).toEqual({ ...none, callsPerMinute: 5 });
      const client = new Client(service());
      await client.ok("service-accounts", "change", id, "--max-concurrent-runs", "4");
      expect(await listed()).toEqual({ ...none, callsPerMinute: 5, concurrentRuns: 4 });
      await client.ok("service-accounts", "change", id, "--max-calls-per-minute", "none");
      expect(await listed()).toEqual({ ...none, concurrentRuns: 4 });
      expect(await client.ok("service-accounts", "list")).toContain("4 at a time");
      expect(await client.ok("projects", "change", "--max-gpu-seconds", "100000000")).toContain(
        "100000000 GPU s/day",
      );
      expect(await client.ok("projects", "change", "--max-gpu-seconds", "none")).toMatch(/quotas\s+none/);
      expect(await client.ok("projects", "show")).toMatch(/quotas\s+none/);
      for (const quotas of [
        { callsPerMinute: 0 },
        { concurrentRuns: 1.5 },
        { gpuSeconds: 1 },
        { callsPerMinute: 1e9 },
      ]) {
        const refused = await site.ask("PATCH", `service-accounts/${id}`, { body: { quotas } });
        expect([refused.status, refused.json.message]).toEqual([400, expect.stringContaining("quotas")]);
      }
      const { json: audit } = await site.call("listAudit", { pageSize: "50" });
      const actions = audit.items.map(({ action }: { action: string }) => action);
      expect(actions).toContain("project.update");
    },
  );
});
