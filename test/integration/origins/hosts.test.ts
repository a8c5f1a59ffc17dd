import { readFileSync } from "node:fs";
import path from "node:path";
import { once } from "node:events";
import { expect, test } from "vitest";
import { WebSocket as Client } from "ws";
import { hostLabel } from "../../../src/model/names.ts";
import { callAccount } from "../../support/call-tokens.ts";
import { type RawAnswer, RawConnection, rawRequest } from "../../support/raw-http.ts";
import { secondProject } from "../../support/second-project.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { socketApp } from "../../support/servers/socket-app.ts";
import { sharedService } from "../../support/shared-service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const PAGES = readFileSync(path.join(REPOSITORY, "test/support/servers/pages.py"), "utf8");
const FUNCTIONS = "def run(n=1):\n    return n + 1\n\ndef v4():\n    return 'v4'\n";
const DOMAIN = "apps.example.com";
/** With the project's id, too long for a label. */
const LONG = "a-name-that-is-as-long-as-a-name-can-be-and-has-its-end-cut-off";

const site = sharedService(
  {
    functions: { main: FUNCTIONS },
    "a--b": { main: FUNCTIONS },
    open: { main: FUNCTIONS, toml: "[deployment]\ndisable_auth = true\n" },
    web: serverApp({}, PAGES),
    talk: socketApp(),
    [LONG]: { main: FUNCTIONS },
    xn: { main: FUNCTIONS },
  },
  { appHosts: `*.${DOMAIN}` },
);

const project = (): string => site().service.owner.projectId;
const auth = (): string => `Authorization: Bearer ${site().service.owner.token}`;
const hostOf = (app: string, projectId = project()): string =>
  `${hostLabel({ projectId, appName: app })}.${DOMAIN}`;

/** Sends a request as it is written. */
async function send(line: string, headers: readonly string[], body = ""): Promise<RawAnswer> {
  await using connection = await RawConnection.open(site().service.apiUrl);
  const length = body === "" ? [] : ["Content-Type: application/json", `Content-Length: ${body.length}`];
  connection.send(rawRequest(line, [...headers, ...length], body));
  return await connection.answer();
}

const codeOf = ({ status, body }: RawAnswer): [number, string] => [
  status,
  (JSON.parse(body) as { code: string }).code,
];

verifies("origins.host", "an app of functions: calls, runs, results and its document", async () => {
  const headers = [`Host: ${hostOf("functions")}`, auth()];
  const called = await send("POST /run HTTP/1.1", headers, '{"n": 2}');
  expect([called.status, JSON.parse(called.body)]).toMatchObject([200, { result: 3 }]);
  const bare = await send("POST /run/chat/completions HTTP/1.1", headers, '{"n": 2}');
  expect([bare.status, bare.body]).toEqual([200, "3"]);
  const accepted = await send("POST /run?async=true HTTP/1.1", headers, '{"n": 3}');
  const { run_id: id } = JSON.parse(accepted.body) as { run_id: string };
  expect([accepted.status, accepted.headers["location"]]).toEqual([
    202,
    `http://${hostOf("functions")}/runs/${id}`,
  ]);
  const result = await send(`GET /runs/${id}/result HTTP/1.1`, [...headers, "Prefer: wait=60"]);
  expect(JSON.parse(result.body)).toMatchObject({ result: 4 });
  expect((await send(`GET /runs/${id} HTTP/1.1`, headers)).status).toBe(200);
  const document = await send("GET /openapi.json HTTP/1.1", headers);
  expect(JSON.parse(document.body)).toMatchObject({
    servers: [{ url: `http://${hostOf("functions")}` }],
    paths: { "/run": {} },
  });
  expect(codeOf(await send("GET / HTTP/1.1", headers))).toEqual([404, "not_found"]);
  expect(codeOf(await send("POST /none HTTP/1.1", headers))).toEqual([404, "function_not_found"]);
  // No address of the shared origin: `v4` is a function here like any other.
  const other = await send(`POST /v4/${project()}/open/run HTTP/1.1`, headers, "{}");
  expect([other.status, other.body]).toEqual([200, '"v4"']);
});

verifies("origins.host", "a server: every path from the root, and no prefix", async () => {
  const headers = [`Host: ${hostOf("web")}`, auth()];
  for (const target of ["/", "/a/b?c=d", "/a//b", "/openapi.json", "/runs/7", "/v4/p-1/web/x", "/%2e%2e/x"]) {
    const { status, body } = await send(`GET ${target} HTTP/1.1`, headers);
    expect([status, body]).toEqual([200, expect.stringContaining(`page of web ${target}</h1>`) as string]);
  }
  expect((await send("GET /prefix HTTP/1.1", headers)).body).toBe("none");
  const shared = [`Host: api.example.com`, auth()];
  const prefix = await send(`GET /v4/${project()}/web/prefix HTTP/1.1`, shared);
  expect(prefix.body).toBe(`/v4/${project()}/web`);
  const { headers: told } = await send("GET / HTTP/1.1", headers);
  expect((await send(`GET /runs/${told["x-request-id"]} HTTP/1.1`, headers)).status).toBe(200);
});

verifies("origins.host", "a WebSocket at the root of a host", async () => {
  const headers = { authorization: `Bearer ${site().service.owner.token}`, host: hostOf("talk") };
  const url = site().service.apiUrl.replace("http", "ws");
  const client = new Client(`${url}/hello?id=own`, { headers });
  const [hello] = (await once(client, "message")) as [Buffer];
  const seen = JSON.parse(hello.toString()) as { url: string; headers: Record<string, string> };
  expect(seen.url).toBe("/hello?id=own");
  expect(seen.headers["x-forwarded-prefix"]).toBeUndefined();
  client.close();
  await once(client, "close");
  const nowhere = new Client(`${url}/hello`, { headers: { ...headers, host: `none.${DOMAIN}` } });
  const [, answer] = (await once(nowhere, "unexpected-response")) as [unknown, { statusCode: number }];
  expect(answer.statusCode).toBe(421);
  nowhere.on("error", () => {}).terminate();
});

verifies(["origins.label", "origins.lookup"], "names with dashes, and names that are too long", async () => {
  const dashes = await send("POST /run HTTP/1.1", [`Host: a--b--${project()}.${DOMAIN}`, auth()], "{}");
  expect(dashes.status).toBe(200);
  const host = hostOf(LONG);
  expect(host).toMatch(new RegExp(`^${LONG.slice(0, 40)}-[a-z2-7]{20}\\.${DOMAIN.replaceAll(".", "\\.")}$`));
  const long = await send("POST /run HTTP/1.1", [`Host: ${host.toUpperCase()}`, auth()], '{"n": 7}');
  expect([long.status, JSON.parse(long.body)]).toMatchObject([200, { result: 8 }]);
  // Each app has one host.
  const whole = await send("POST /run HTTP/1.1", [`Host: ${LONG}--${project()}.${DOMAIN}`, auth()], "{}");
  expect(codeOf(whole)).toEqual([421, "misdirected"]);
  const made = await send("POST /run HTTP/1.1", [
    `Host: ${host.replace(/-[a-z2-7]{20}/, `-${"a".repeat(20)}`)}`,
  ]);
  expect(codeOf(made)).toEqual([421, "misdirected"]);
});

verifies(["origins.misdirected", "origins.punycode"], "hosts below the domain that no app has", async () => {
  for (const label of [
    "none",
    `functions-${project()}`,
    `functions--${project().slice(2)}`,
    `functions--${project().toUpperCase()}x-`,
    `functions--`,
    `--${project()}`,
    `functions---${project()}`,
    `functions_--${project()}`,
    `x.functions--${project()}`,
    `functions--${project()}.${DOMAIN}`,
    "xn",
    `xn--${project()}`,
    `xn--a--${project()}`,
    "www",
  ])
    for (const target of ["/", "/run", `/v4/${project()}/functions/run`, `/v4/${project()}/open/run`]) {
      const answer = await send(`POST ${target} HTTP/1.1`, [`Host: ${label}.${DOMAIN}`, auth()], "{}");
      expect([label, target, ...codeOf(answer)]).toEqual([label, target, 421, "misdirected"]);
    }
});

verifies("origins.silent", "who may not call an app does not learn whether there is one", async () => {
  const theirs = await secondProject(site(), "p-theirs");
  const answers = async (app: string, projectId?: string): Promise<[number, string][]> => {
    const tried = [[], ["Authorization: Bearer x"], [`Authorization: Bearer ${theirs.token}`]].map(
      (headers) => send("POST /run HTTP/1.1", [`Host: ${hostOf(app, projectId)}`, ...headers], "{}"),
    );
    return (await Promise.all(tried)).map(codeOf);
  };
  const refused = [
    [401, "unauthorized"],
    [401, "unauthorized"],
    [403, "forbidden"],
  ];
  expect(await answers("functions")).toEqual(refused);
  expect(await answers("none")).toEqual(refused);
  expect(await answers("functions", "p-none")).toEqual(refused);
  for (const target of ["/run", "/", "/openapi.json", `/runs/${crypto.randomUUID()}`]) {
    const own = await send(`POST ${target} HTTP/1.1`, [`Host: ${hostOf("none")}`, auth()], "{}");
    expect([target, ...codeOf(own)]).toEqual([target, 421, "misdirected"]);
  }
  const open = await send("POST /run HTTP/1.1", [`Host: ${hostOf("open")}`], "{}");
  expect(open.status).toBe(200);
  const run = await send(`GET /runs/${open.headers["x-request-id"]} HTTP/1.1`, [`Host: ${hostOf("open")}`]);
  expect(run.status).toBe(401);
});

const UPGRADE = [
  "Connection: Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Version: 13",
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];

/** Requests that functions, servers and absent apps have different uses for. */
const PROBES: readonly (readonly [method: string, path: string, headers: readonly string[]])[] = [
  ["POST", "run", []],
  ["GET", "", []],
  ["GET", "a%20b", []],
  ["GET", "runs/7", []],
  ["GET", `runs/${crypto.randomUUID()}`, []],
  ["GET", "openapi.json", []],
  ["GET", "openapi.json/x", []],
  ["GET", "run", UPGRADE],
  ["GET", "", UPGRADE],
  ["OPTIONS", "run", ["Origin: https://page.example"]],
  ["OPTIONS", "run", ["Origin: https://page.example", "Access-Control-Request-Method: PUT"]],
];

verifies(
  ["origins.silent", "call.apps"],
  "whatever is asked for, a private app of functions, a server and no app at all answer alike",
  async () => {
    const limited = await callAccount(site(), { apps: ["open"] });
    const theirs = await secondProject(site(), "p-others");
    for (const token of [null, limited.token, theirs.token])
      for (const [method, path, headers] of PROBES)
        for (const place of ["shared", "own"]) {
          const answers: unknown[] = [];
          for (const app of ["functions", "web", "none"]) {
            const below = place === "own" ? "" : `/v4/${project()}/${app}`;
            const host = place === "own" ? hostOf(app) : "api.example.com";
            const bearer = token === null ? [] : [`Authorization: Bearer ${token}`];
            const lines = [`Host: ${host}`, ...bearer, ...headers];
            const answer = await send(`${method} ${below}/${path} HTTP/1.1`, lines);
            const { date, "x-request-id": id = "", ...told } = answer.headers;
            expect(date).toBeDefined();
            answers.push([answer.status, told, answer.body.replaceAll(id, "")]);
          }
          const probe = [method, path, place];
          expect([probe, answers[1], answers[2]]).toEqual([probe, answers[0], answers[0]]);
        }
    // Its own app, which has functions and is not called by these.
    const own = [`Host: ${hostOf("functions")}`, auth()];
    expect(codeOf(await send("GET / HTTP/1.1", own))).toEqual([404, "not_found"]);
    expect(codeOf(await send("GET /run HTTP/1.1", [...own, ...UPGRADE]))).toEqual([404, "not_found"]);
    const open = [`Host: ${hostOf("open")}`];
    expect(codeOf(await send("GET / HTTP/1.1", open))).toEqual([404, "not_found"]);
    expect(codeOf(await send("GET /run HTTP/1.1", [...open, ...UPGRADE]))).toEqual([404, "not_found"]);
  },
);

verifies("origins.other-hosts", "however a Host is written, it is an app's or it is not", async () => {
  const own = hostOf("functions");
  for (const host of [own, `${own}:80`, own.toUpperCase(), `${own}.`, `${own}.:4000`, `${own}:`]) {
    const answer = await send("POST /run HTTP/1.1", [`Host: ${host}`, auth()], "{}");
    // A port without digits is no address for a link.
    expect([host, answer.status]).toEqual([host, host.endsWith(":") ? 400 : 200]);
  }
  const path = `/v4/${project()}/functions/run`;
  for (const host of [
    "x",
    "127.0.0.1:4000",
    "[::1]:4000",
    "[::1]",
    DOMAIN,
    `${DOMAIN}:443`,
    `${DOMAIN}.`,
    `evil${DOMAIN}`,
    `${own}.evil.test`,
    own.replace(".com", ".org"),
  ]) {
    const answer = await send(`POST ${path} HTTP/1.1`, [`Host: ${host}`, auth()], "{}");
    expect([host, answer.status]).toEqual([host, 200]);
    const root = await send("POST /run HTTP/1.1", [`Host: ${host}`, auth()], "{}");
    expect([host, ...codeOf(root)]).toEqual([host, 404, "not_found"]);
  }
});

test("a Host that leaves open where a request goes is refused, and no other header counts", async () => {
  const own = hostOf("functions");
  const path = `/v4/${project()}/functions/run`;
  for (const headers of [
    [`Host: x`, `Host: ${own}`],
    [`Host: ${own}`, `Host: ${own}`],
    [`Host: ${own.replace("--", "%2d%2d")}`],
    [`Host: x@${own}`],
    [`Host: ${own} x`],
    [`Host: ${own}..`],
    [`Host: .${DOMAIN}`],
    [`Host: ${own},x`],
    ["Host:"],
    [],
  ]) {
    const answer = await send("POST /run HTTP/1.1", [...headers, auth()], "{}");
    expect([headers, answer.status]).toEqual([headers, 400]);
  }
  for (const line of [`POST http://${own}/run HTTP/1.1`, `POST http://x${path} HTTP/1.1`]) {
    expect([line, (await send(line, [`Host: ${own}`, auth()], "{}")).status]).toEqual([line, 400]);
  }
  const forwarded = [`X-Forwarded-Host: ${own}`, `Forwarded: host=${own}`, `X-Host: ${own}`];
  const other = await send("POST /run HTTP/1.1", ["Host: x", ...forwarded, auth()], "{}");
  expect(codeOf(other)).toEqual([404, "not_found"]);
  await using old = await RawConnection.open(site().service.apiUrl);
  old.send(rawRequest(`POST ${path} HTTP/1.0`, [auth(), "Content-Length: 0"]));
  expect((await old.answer()).status).toBe(200);
});
