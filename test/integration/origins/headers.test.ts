import { readFileSync } from "node:fs";
import path from "node:path";
import { type IncomingHttpHeaders, type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { expect } from "vitest";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { sharedService } from "../../support/shared-service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { Client } from "../cli/client.ts";
import { verifies } from "../../verifies.ts";

const PAGES = readFileSync(path.join(REPOSITORY, "test/support/servers/pages.py"), "utf8");
const site = sharedService(
  { web: serverApp({}, PAGES), xn: serverApp({}, PAGES) },
  { appHosts: "*.apps.test" },
);

const project = (): string => site().service.owner.projectId;
const ownHost = (): string => `web--${project()}.apps.test`;

type Told = { readonly headers: IncomingHttpHeaders; readonly body: string };

/** Asks the app by either of its addresses. */
async function ask(
  place: "shared" | "own",
  target: string,
  headers: Record<string, string> = {},
): Promise<Told> {
  const { apiUrl, owner } = site().service;
  const below = place === "own" ? "" : `/v4/${project()}/web`;
  const host = place === "own" ? ownHost() : "api.test";
  const asked = request(`${apiUrl}${below}${target}`, {
    headers: { host, authorization: `Bearer ${owner.token}`, ...headers },
  });
  asked.end();
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    asked.once("response", resolve).once("error", reject);
  });
  return { headers: response.headers, body: await text(response) };
}

const inQuery = (pairs: readonly [string, string][]): string => `?${new URLSearchParams(pairs).toString()}`;

/** What browsers apply to the whole origin of a response. */
const OF_ORIGIN = [
  "Service-Worker-Allowed",
  "Alt-Svc",
  "NEL",
  "Report-To",
  "Reporting-Endpoints",
  "Strict-Transport-Security",
  "Use-As-Dictionary",
  "Accept-CH",
  "Critical-CH",
  "Set-Login",
  "Secure-Session-Registration",
  "Sec-Session-Registration",
];

verifies("origins.headers", "what an app says for its whole origin, and for its whole site", async () => {
  const sent = inQuery([
    ...OF_ORIGIN.map((name): [string, string] => [name, "x"]),
    ["SERVICE-WORKER-ALLOWED", "/"],
    ["Clear-Site-Data", '"*"'],
    ["clear-site-data", '"cookies"'],
    ["X-Kept", "1"],
  ]);
  const shared = await ask("shared", `/headers${sent}`);
  expect(Object.keys(shared.headers)).toContain("x-kept");
  for (const name of [...OF_ORIGIN, "Clear-Site-Data"])
    expect([name, shared.headers[name.toLowerCase()]]).toEqual([name, undefined]);
  const own = await ask("own", `/headers${sent}`);
  for (const name of OF_ORIGIN)
    expect([name, own.headers[name.toLowerCase()]]).toEqual([name, expect.anything()]);
  expect(own.headers["clear-site-data"]).toBeUndefined();
});

verifies(
  ["origins.domain", "cookies.apps"],
  "cookies, on both addresses and in both directions",
  async () => {
    const set = inQuery([
      ["Set-Cookie", "a=1; Domain=test; Path=/"],
      ["Set-Cookie", "b=2; domain=.apps.test"],
      ["Set-Cookie", "millrace_refresh=evil; Path=/v2/session/refresh"],
      ["Set-Cookie", "__Host-millrace_refresh=evil; Secure; Path=/"],
      ["Set-Cookie", "=millrace_refresh=evil; Path=/v2/session/refresh"],
    ]);
    const cookie = "a=1; __Host-millrace_refresh=secret; millrace_refresh=secret; b=2";
    for (const place of ["shared", "own"] as const) {
      expect((await ask(place, `/headers${set}`)).headers["set-cookie"]).toEqual(["a=1; Path=/", "b=2"]);
      expect((await ask(place, "/cookie", { cookie })).body).toBe("a=1; b=2");
      expect((await ask(place, "/cookie", { cookie: "millrace_refresh=secret" })).body).toBe("");
    }
  },
);

verifies("origins.dashboard", "the management API has no host below the domain of apps", async () => {
  const { baseUrl, owner } = site().service;
  await using connection = await RawConnection.open(baseUrl);
  const lines = [`Authorization: Bearer ${owner.token}`];
  const targets = ["/", "/v2/me", "/livez", "/openapi.json", "/none", `/ws-logs?projectID=${project()}`];
  let asked = 0;
  for (const host of [ownHost(), `x.apps.test:80`, "X.APPS.TEST."])
    for (const target of targets) {
      connection.send(rawRequest(`GET ${target} HTTP/1.1`, [`Host: ${host}`, ...lines]));
      const { status } = await connection.answer(asked++);
      expect([host, target, status]).toEqual([host, target, 421]);
    }
  await using socket = await RawConnection.open(baseUrl);
  const upgrade = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"];
  const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
  const place = `/ws-logs?projectID=${project()}&appID=${project()}-web`;
  socket.send(rawRequest(`GET ${place} HTTP/1.1`, [`Host: ${ownHost()}`, ...lines, ...upgrade, key]));
  expect((await socket.answer()).status).toBe(421);
  connection.send(rawRequest("GET /livez HTTP/1.1", ["Host: apps.test"]));
  expect((await connection.answer(asked)).status).toBe(200);
});

verifies("cookies.two", "two refresh cookies in two Cookie headers are two", async () => {
  await using connection = await RawConnection.open(site().service.baseUrl);
  const cookies = ["Cookie: millrace_refresh=a", "Cookie: millrace_refresh=b"];
  connection.send(
    rawRequest("POST /v2/session/refresh HTTP/1.1", ["Host: x", "Content-Length: 0", ...cookies]),
  );
  const { status, body } = await connection.answer();
  expect([status, JSON.parse(body)]).toMatchObject([
    401,
    { message: expect.stringContaining("two refresh cookies") as string },
  ]);
});

verifies("origins.shown", "the API and the command line show an app's own host", async () => {
  const client = new Client(site());
  const { port } = new URL(site().service.apiUrl);
  const shown = await client.run("apps", "get", "web");
  expect(shown.stdout).toMatch(new RegExp(`^own host +http://${ownHost()}:${port}$`, "m"));
  const json = await client.run("apps", "get", "web", "--json");
  expect(JSON.parse(json.stdout)).toMatchObject({ host: ownHost() });
  const none = await client.run("apps", "get", "xn", "--json");
  expect(JSON.parse(none.stdout)).toMatchObject({ host: null });
});
