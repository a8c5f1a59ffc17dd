import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { expect } from "vitest";
import { WebSocket } from "ws";
import { appId } from "../../../src/model/names.ts";
import { callAccount, userToken } from "../../support/call-tokens.ts";
import { HandClock } from "../../support/clocks.ts";
import { testService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
def run():
    return 1

def other():
    return 2

def count():
    yield "one"
`;

const site = sharedService({
  app: { main: MAIN },
  second: { main: MAIN },
  web: serverApp(),
  open: { main: MAIN, toml: "[deployment]\ndisable_auth = true\n" },
});

verifies(
  "call.apps",
  "the apps that an account names are called and streamed from; every other is 403, there or not",
  async () => {
    const { token } = await callAccount(site(), { apps: ["app", "web"] });
    expect((await site().call("app", {}, { token })).json.result).toBe(1);
    expect((await site().call("app", {}, { token, functionName: "count" })).text).toBe("data: one\n\n");
    expect((await site().call("app", {}, { token, suffix: "?async=true" })).status).toBe(202);
    expect((await site().call("web", {}, { token, functionName: "echo/path" })).status).toBe(200);
    const refused = await Promise.all(
      ["second", "none", "app-", "APP"].map((app) => site().call(app, {}, { token })),
    );
    expect(refused.map(({ status }) => status)).toEqual([403, 403, 404, 404]);
    const [there, notThere] = refused.map(({ json }) => ({ ...json, request_id: "" }));
    expect(notThere).toEqual(there);
    // A batch is many calls: not for an account that may make only so many.
    const paced = await callAccount(site(), { apps: ["app"], callsPerMinute: 60 });
    const batchOf = async (of: string) =>
      await site().call("app", '{"input":{}}\n', {
        token: of,
        suffix: "/batches",
        headers: { "content-type": "application/jsonl" },
      });
    expect((await batchOf(token)).status).toBe(202);
    expect((await batchOf(paced.token)).json.code).toBe("forbidden");
    // Named, but not there.
    const hopeful = await callAccount(site(), { apps: ["none"] });
    expect((await site().call("none", {}, { token: hopeful.token })).json.code).toBe("app_not_found");
    // A run of another app is not even looked for.
    const { json } = await site().call("second");
    expect((await site().ofRun("second", json.run_id, "", { token })).status).toBe(403);
  },
);

verifies("call.functions", "limited to functions, a token calls these, and no server app", async () => {
  const { token } = await callAccount(site(), { apps: ["app", "web"], functions: ["other"] });
  const status = async (app: string, functionName: string): Promise<number> =>
    (await site().call(app, {}, { token, functionName })).status;
  expect(await status("app", "other")).toBe(200);
  expect(await status("app", "other/v1/chat")).toBe(200);
  for (const name of ["run", "count", "none", "Other", "run/other"])
    expect(await status("app", name)).toBe(403);
  // A server reads a path as it likes: what it makes of it is not ours to know.
  for (const target of ["other", "other/../run", "", "%6fther"])
    expect(await status("web", target)).toBe(403);
  const socket = new WebSocket(site().url("web", "other").replace("http", "ws"), {
    headers: { authorization: `Bearer ${token}` },
  });
  const [, refusal] = (await once(socket, "unexpected-response")) as [unknown, IncomingMessage];
  expect(refusal.resume().statusCode).toBe(403);
});

verifies("call.origins", "limited to origins, a token is refused to every page of another", async () => {
  const origins = ["https://shop.example.com", "http://localhost:3000"];
  const account = await callAccount(site(), { apps: ["app", "web", "open"], origins });
  const { json } = await site().call("app", {}, { token: account.token });
  for (const token of [account.token, await userToken(site(), account, "ada")]) {
    const from = async (origin: string | null, app = "app", functionName = "run"): Promise<number> => {
      const headers: Record<string, string> = origin === null ? {} : { origin };
      const method = functionName.startsWith("runs") ? "GET" : "POST";
      return (await site().call(app, {}, { token, functionName, headers, method })).status;
    };
    for (const origin of [...origins, null]) expect([origin, await from(origin)]).toEqual([origin, 200]);
    for (const origin of [
      "https://evil.example",
      "null",
      "https://shop.example.com.evil.example",
      "https://shop.example.com:8443",
      "http://shop.example.com",
      "https://SHOP.example.com",
      "https://shop.example.com/",
      "https://shop.example.com https://evil.example",
      "",
    ]) {
      expect([origin, await from(origin)]).toEqual([origin, 403]);
      expect([origin, await from(origin, "web", "echo")]).toEqual([origin, 403]);
      expect([origin, await from(origin, "app", `runs/${json.run_id}`)]).toEqual([origin, 403]);
    }
  }
  // A page may always ask whether it may call: the token comes with the call.
  const preflight = await fetch(site().url("app"), {
    method: "OPTIONS",
    headers: { origin: "https://evil.example", "access-control-request-method": "POST" },
  });
  expect(preflight.status).toBe(204);
  const socket = new WebSocket(`${site().url("web", "").replace("http", "ws")}?token=${account.token}`, {
    origin: "https://evil.example",
  });
  const [, refusal] = (await once(socket, "unexpected-response")) as [unknown, IncomingMessage];
  expect(refusal.resume().statusCode).toBe(403);
});

verifies(
  "call.pace",
  "no more calls in any minute than the account may make, for each end user, on whatever connection",
  async () => {
    const clock = new HandClock();
    const on = await testService({ app: { main: MAIN } }, {}, { clock });
    const { tokens, owner } = on.service;
    const issued = await tokens.issue({
      projectId: owner.projectId,
      name: "page",
      role: "call",
      limits: { apps: ["app"], functions: null, origins: null, callsPerMinute: 3 },
      expiresAt: clock.now() + 3_600_000,
    });
    const users = await Promise.all(
      ["ada", "grace"].map((user) =>
        tokens.issueForUser(owner.projectId, issued.accountId, { user, lifeMs: 3_600_000 }),
      ),
    );
    const callers = [issued.token, ...users.map((each) => each?.token ?? "")];
    const call = async (token: string, suffix = "") =>
      await on.call("app", {}, { token, suffix, headers: { connection: "close" } });
    for (const token of callers) {
      expect((await call(token)).status).toBe(200);
      clock.advance(20_000);
      expect((await call(token, "?async=true")).status).toBe(202);
      // One that is refused for its arguments was a call, too.
      expect((await on.call("app", { x: 1 }, { token })).status).toBe(422);
      const refused = await call(token);
      expect([refused.status, refused.json.code]).toEqual([429, "too_many_requests"]);
      expect(refused.headers.get("retry-after")).toBe("40");
      expect((await on.call("app", {}, { token, functionName: "none" })).status).toBe(429);
      // To look at a run is no call.
      const runId = (await on.call("app", {}, { token: owner.token })).json.run_id as string;
      expect((await on.ofRun("app", runId, "", { token })).status).toBe(404);
      clock.advance(39_999);
      expect((await call(token)).status).toBe(429);
      clock.advance(1);
      expect((await call(token)).status).toBe(200);
      expect((await call(token)).headers.get("retry-after")).toBe("20");
      clock.advance(20_000);
    }
    // A changed limit counts at once, and another account's calls are its own.
    const limits = { apps: ["app"], functions: null, origins: null, callsPerMinute: null };
    await tokens.update(owner.projectId, issued.accountId, { callLimits: JSON.stringify(limits) });
    for (let i = 0; i < 5; i++) expect((await call(issued.token)).status).toBe(200);
    expect((await call(owner.token)).status).toBe(200);
  },
);

verifies(
  "call.nothing-else",
  "neither the app's document, nor the management API, nor a log is for such a token",
  async () => {
    const account = await callAccount(site(), { apps: ["app", "open"] });
    const { projectId } = site().service.owner;
    const { baseUrl } = site().service;
    for (const token of [account.token, await userToken(site(), account, "ada")]) {
      const get = { token, method: "GET" };
      expect((await site().call("app", "", { ...get, functionName: "openapi.json" })).status).toBe(403);
      // What anyone may read, it may.
      expect((await site().call("open", "", { ...get, functionName: "openapi.json" })).status).toBe(200);
      for (const place of [`/v2/projects`, `/v2/hardware`, `/v2/projects/${projectId}/runs`]) {
        const headers = { authorization: `Bearer ${token}` };
        expect((await fetch(`${baseUrl}${place}`, { headers })).status).toBe(403);
      }
      for (const path of ["ws-logs", "ws-build-logs"]) {
        const query = new URLSearchParams({ projectID: projectId, appID: appId(projectId, "app"), token });
        const socket = new WebSocket(`${baseUrl.replace("http", "ws")}/${path}?${query.toString()}`);
        const [, refusal] = (await once(socket, "unexpected-response")) as [unknown, IncomingMessage];
        expect([path, refusal.resume().statusCode]).toEqual([path, 403]);
      }
    }
  },
);

verifies(
  "call.public",
  "a call of a public app is its token's holder's; a token that is not good makes it nobody's",
  async () => {
    const account = await callAccount(site(), { apps: ["open"], callsPerMinute: 1 });
    const elsewhere = await callAccount(site(), { apps: ["app"] });
    const ada = await userToken(site(), account, "ada");
    const owners = async (token: string | null): Promise<unknown[]> => {
      const { status, json } = await site().call("open", {}, { token });
      expect(status).toBe(200);
      const { service, apps } = site();
      await service.settle();
      const appNumber = apps.get("open")?.app.number ?? 0;
      const run = await service.store.runs.find({ appNumber, id: json.run_id });
      return [run?.accountId, run?.user];
    };
    expect(await owners(null)).toEqual([null, null]);
    expect(await owners("no.such.token")).toEqual([null, null]);
    expect(await owners(elsewhere.token)).toEqual([null, null]);
    // Whoever may call without a token is not counted by one.
    for (let i = 0; i < 3; i++) expect(await owners(ada)).toEqual([account.accountId, "ada"]);
    expect(await owners(account.token)).toEqual([account.accountId, null]);
    const anonymous = await site().call("open", {}, { token: null });
    expect((await site().ofRun("open", anonymous.json.run_id, "", { token: ada })).status).toBe(404);
    const own = await site().call("open", {}, { token: ada });
    expect((await site().ofRun("open", own.json.run_id, "", { token: ada })).status).toBe(200);
  },
);
