import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { WebSocket as Client } from "ws";
import { HOLDING_APP } from "../../support/holding-app.ts";
import { testNode, testAuthority } from "../../support/nodes/hop.ts";
import { through, type TwoServices, twoServices } from "../../support/nodes/two-services.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { socketApp } from "../../support/servers/socket-app.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const FUNCTIONS = {
  main: `${HOLDING_APP}
def add(n: int = 1):
    return n + 1

def count(to: int):
    for i in range(to):
        yield i
`,
  toml: "[scaling]\nmax_replicas = 2\n",
};

type Init = Omit<RequestInit, "headers"> & { readonly headers?: Record<string, string> };

async function call(
  site: TwoServices,
  target: string,
  init: Init = {},
  app = "functions",
): Promise<Response> {
  const authorization = `Bearer ${site.owner.on.service.owner.token}`;
  const headers = { authorization, "content-type": "application/json", ...init.headers };
  return await fetch(through(site, app, target), { method: "POST", ...init, headers });
}

/** Waits until a call of `hold` has begun. */
async function entered({ owner }: TwoServices): Promise<void> {
  const isEntered = (name: string): boolean => name.startsWith("entered-");
  await until("it is under way", () => readdirSync(owner.on.bundleDir("functions")).some(isEntered));
}

/** Lets the held calls of the owner's app end. */
function letGo({ owner }: TwoServices): void {
  writeFileSync(path.join(owner.on.bundleDir("functions"), "go"), "");
}

async function errorOf(response: Response): Promise<[number, string]> {
  const { code } = (await response.json()) as { code: string };
  return [response.status, code];
}

verifies("peers.gateway", "calls, streams, async runs, records and errors of an app elsewhere", async () => {
  const site = await twoServices({ functions: FUNCTIONS });
  const plain = await call(site, "add", { body: '{"n": 9007199254740993}' });
  expect(plain.status).toBe(200);
  expect(await plain.text()).toContain("9007199254740994");
  const id = plain.headers.get("x-request-id") ?? "";
  const stream = await call(site, "count", { body: '{"to": 3}' });
  expect((await stream.text()).match(/^data: /gm)?.length).toBeGreaterThanOrEqual(3);
  const accepted = await call(site, "add?async=true", { body: '{"n": 41}' });
  expect(accepted.status).toBe(202);
  const { run_id: runId } = (await accepted.json()) as { run_id: string };
  const waiting = { method: "GET", headers: { prefer: "wait=60" } };
  expect(await (await call(site, `runs/${runId}/result`, waiting)).text()).toContain("42");
  expect(await errorOf(await call(site, "nothing"))).toEqual([404, "function_not_found"]);
  expect(await errorOf(await call(site, "add", { headers: { authorization: "Bearer x" } }))).toEqual([
    401,
    "unauthorized",
  ]);
  expect(await errorOf(await call(site, "add", { body: "{" }))).toEqual([400, "invalid_json"]);
  await site.owner.on.service.settle();
  const record = await call(site, `runs/${id}`, { method: "GET" });
  expect(await record.json()).toMatchObject({ id });
});

verifies("peers.gateway", "a server elsewhere gets requests as it would without the hop", async () => {
  const site = await twoServices({ web: serverApp() }, { trustedProxies: ["127.0.0.1"] });
  const seen = await call(
    site,
    "things/7?a=%2F",
    { method: "PUT", body: "x", headers: { "x-forwarded-for": "203.0.113.9", "x-mine": "1" } },
    "web",
  );
  const told = (await seen.json()) as { path: string; headers: [string, string][] };
  expect(told.path).toBe("/things/7?a=%2F");
  const headers = Object.fromEntries(told.headers.map(([name, value]) => [name.toLowerCase(), value]));
  expect(headers).toMatchObject({ "x-forwarded-for": "203.0.113.9, 127.0.0.1", "x-mine": "1" });
  expect(headers["x-forwarded-host"]).toBe(new URL(site.front.on.service.apiUrl).host);
  expect(Object.keys(headers)).not.toContain("x-millrace-for");
  expect(headers["expect"]).toBeUndefined();
  const bytes = randomBytes(5 * 1024 * 1024);
  const hashed = await call(site, "hash", { method: "POST", body: bytes }, "web");
  expect(await hashed.text()).toBe(createHash("sha256").update(bytes).digest("hex"));
  const large = await call(site, "bytes?count=20000000", { method: "GET" }, "web");
  expect((await large.arrayBuffer()).byteLength).toBe(20_000_000);
});

verifies("peers.gateway", "a WebSocket to an app elsewhere", async () => {
  const site = await twoServices({ talk: socketApp() });
  const headers = { authorization: `Bearer ${site.owner.on.service.owner.token}` };
  const client = new Client(through(site, "talk", "echo").replace(/^http/, "ws"), { headers });
  await once(client, "open");
  const answered = once(client, "message") as Promise<[Buffer]>;
  client.send("hello");
  expect((await answered)[0].toString()).toBe("hello");
  const closed = once(client, "close") as Promise<[number, Buffer]>;
  client.close(4000, "bye");
  expect((await closed)[0]).toBe(4000);
  const refused = new Client(through(site, "talk", "refused").replace(/^http/, "ws"), { headers });
  const [, { statusCode }] = (await once(refused, "unexpected-response")) as [
    unknown,
    { statusCode: number },
  ];
  expect(statusCode).toBe(403);
  refused.on("error", () => {});
  refused.terminate();
});

verifies(
  "peers.moved",
  "after a node that cannot be reached the next one is asked, a few times",
  async () => {
    const site = await twoServices({ functions: FUNCTIONS });
    const { beliefs } = site.front;
    const dead = await testNode(await testAuthority());
    await dead.listener.close();
    const send = async (): Promise<Response> => await call(site, "add", { body: '{"n": 1}' });
    beliefs.settle = async () => ({ kind: "there", peer: dead.peer });
    beliefs.later = async () => ({ kind: "there", peer: site.owner.node.peer });
    expect((await send()).status).toBe(200);
    beliefs.later = async () => null;
    expect(await errorOf(await send())).toEqual([503, "app_not_ready"]);
    beliefs.later = async () => ({ kind: "there", peer: dead.peer });
    expect(await errorOf(await send())).toEqual([503, "app_not_ready"]);
    // The token is another installation's.
    beliefs.later = async () => {
      beliefs.settle = async () => null;
      return { kind: "here" };
    };
    expect(await errorOf(await send())).toEqual([401, "unauthorized"]);
    expect(beliefs.retries).toEqual(Array.from({ length: 1 + 1 + 4 + 1 }, () => "unreached"));
  },
);

verifies("peers.moved", "a node that does not have the app passes a request on no further", async () => {
  const site = await twoServices({ functions: FUNCTIONS });
  const { front, owner } = site;
  front.beliefs.later = async () => ({ kind: "there", peer: owner.node.peer });
  owner.beliefs.settle = async () => ({ kind: "there", peer: front.node.peer });
  // An app that neither has: each believes it is the other's.
  const response = await call(site, "run", { body: "{}" }, "other");
  expect(await errorOf(response)).toEqual([503, "app_not_ready"]);
  expect(front.beliefs.retries).toEqual(["moved", "moved", "moved", "moved"]);
  expect(owner.beliefs.retries).toEqual([]);
});

verifies("peers.lost", "a call whose node is lost is not made again", async () => {
  const site = await twoServices({ functions: FUNCTIONS });
  const { front, owner } = site;
  const held = call(site, "hold", { body: "{}" });
  await entered(site);
  await owner.node.listener.close();
  expect(await errorOf(await held)).toEqual([502, "node_lost"]);
  expect(front.beliefs.retries).toEqual([]);
  letGo(site);
});

verifies("peers.draining", "a service that stops waits for the calls that pass through it", async () => {
  const site = await twoServices({ functions: FUNCTIONS });
  const { front } = site;
  const held = call(site, "hold", { body: "{}" });
  await entered(site);
  let hasStopped = false;
  const stopped = front.on.service.stop().then(() => (hasStopped = true));
  letGo(site);
  const response = await held;
  expect([response.status, hasStopped]).toEqual([200, false]);
  await stopped;
});
