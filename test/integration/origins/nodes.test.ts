import { once } from "node:events";
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { WebSocket } from "ws";
import { hostLabel } from "../../../src/model/names.ts";
import { type RawAnswer, RawConnection, rawRequest } from "../../support/raw-http.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { socketApp } from "../../support/servers/socket-app.ts";
import type { TestService } from "../../support/service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";
import { pair } from "../nodes/pair.ts";

const PAGES = readFileSync(path.join(REPOSITORY, "test/support/servers/pages.py"), "utf8");
const FUNCTIONS = { main: "def run(n=1):\n    return n + 1\n" };
const LONG = "a-name-that-is-as-long-as-a-name-can-be-and-has-its-end-cut-off";
const APP_HOSTS = { appHosts: "*.apps.test" };

const hostOf = ({ service }: TestService, appName: string): string =>
  `${hostLabel({ projectId: service.owner.projectId, appName })}.apps.test`;

/** Sends a request to a service by the host of an app. */
async function send(
  { service: { apiUrl, owner } }: TestService,
  line: string,
  { host, headers = [], body = "" }: { host: string; headers?: readonly string[]; body?: string },
): Promise<RawAnswer> {
  await using connection = await RawConnection.open(apiUrl);
  const token = `Authorization: Bearer ${owner.token}`;
  const length = body === "" ? [] : ["Content-Type: application/json", `Content-Length: ${body.length}`];
  connection.send(rawRequest(line, [`Host: ${host}`, token, ...headers, ...length], body));
  return await connection.answer();
}

const nodes = pair({ [LONG]: FUNCTIONS, web: serverApp({}, PAGES), talk: socketApp() }, APP_HOSTS);

verifies("origins.nodes", "calls and runs of an app that the other node has, found by a hash", async () => {
  const { other } = await nodes.sides(LONG);
  const host = hostOf(other, LONG);
  const plain = await send(other, "POST /run HTTP/1.1", { host, body: '{"n": 4}' });
  expect([plain.status, JSON.parse(plain.body)]).toMatchObject([200, { result: 5 }]);
  const accepted = await send(other, "POST /run?async=true HTTP/1.1", { host, body: "{}" });
  const { run_id: id } = JSON.parse(accepted.body) as { run_id: string };
  expect(accepted.headers["location"]).toBe(`http://${host}/runs/${id}`);
  const headers = ["Prefer: wait=60"];
  const result = await send(other, `GET /runs/${id}/result HTTP/1.1`, { host, headers });
  expect(JSON.parse(result.body)).toMatchObject({ result: 2 });
  const none = await send(other, "GET / HTTP/1.1", { host: `none--p-none.apps.test` });
  expect(none.status).toBe(403);
});

verifies(
  "origins.nodes",
  "a server that the other node has is at the root, with all its headers",
  async () => {
    const { other } = await nodes.sides("web");
    const host = hostOf(other, "web");
    const ask = async (target: string) => await send(other, `GET ${target} HTTP/1.1`, { host });
    expect((await ask("/a//b?c")).body).toContain("page of web /a//b?c<");
    expect((await ask("/prefix")).body).toBe("none");
    const { headers } = await ask(
      "/headers?Service-Worker-Allowed=/&Clear-Site-Data=*&Set-Cookie=a=1;Domain=test",
    );
    expect([headers["service-worker-allowed"], headers["clear-site-data"], headers["set-cookie"]]).toEqual([
      "/",
      undefined,
      "a=1",
    ]);
  },
);

verifies(["origins.nodes", "origins.host"], "a WebSocket to the other node", async () => {
  const { other } = await nodes.sides("talk");
  const { apiUrl, owner } = other.service;
  const headers = { host: hostOf(other, "talk"), authorization: `Bearer ${owner.token}` };
  const client = new WebSocket(`${apiUrl.replace("http", "ws")}/hello`, { headers });
  const [hello] = (await once(client, "message")) as [Buffer];
  const seen = JSON.parse(hello.toString()) as { url: string; headers: Record<string, string> };
  expect([seen.url, seen.headers["x-forwarded-prefix"]]).toEqual(["/hello", undefined]);
  client.close();
  await once(client, "close");
});
