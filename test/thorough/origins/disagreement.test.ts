import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { hostLabel } from "../../../src/model/names.ts";
import { twoServices } from "../../support/nodes/two-services.ts";
import { type RawAnswer, RawConnection, rawRequest } from "../../support/raw-http.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const PAGES = readFileSync(path.join(REPOSITORY, "test/support/servers/pages.py"), "utf8");
const APPS = { functions: { main: "def run(n=1):\n    return n + 1\n" }, web: serverApp({}, PAGES) };
const APP_HOSTS = { appHosts: "*.apps.test" };
const TOLD = "Service-Worker-Allowed=/";

/** Asks the first of two services, by the host of an app of the second's. */
async function between(first: object, second: object) {
  const { front, owner } = await twoServices(APPS, { ...first }, { ...second });
  const { projectId, token } = owner.on.service.owner;
  const ask = async (appName: string, line: string, headers: readonly string[] = []): Promise<RawAnswer> => {
    await using connection = await RawConnection.open(front.on.service.apiUrl);
    const host = `Host: ${hostLabel({ projectId, appName })}.apps.test`;
    connection.send(rawRequest(line, [host, `Authorization: Bearer ${token}`, ...headers]));
    return await connection.answer();
  };
  return { projectId, ask };
}

verifies("origins.nodes", "a host that is an app's to the first node is so to the other", async () => {
  const { ask } = await between(APP_HOSTS, {});
  expect((await ask("functions", "POST /run HTTP/1.1")).status).toBe(200);
  expect((await ask("web", "GET /prefix HTTP/1.1")).body).toBe("none");
  const { headers } = await ask("web", `GET /headers?${TOLD} HTTP/1.1`);
  expect(headers["service-worker-allowed"]).toBe("/");
});

verifies("origins.nodes", "a host that is no app's to the first node is none to the other", async () => {
  const { ask, projectId } = await between({}, APP_HOSTS);
  const prefix = `/v4/${projectId}/web`;
  expect((await ask("web", `GET ${prefix}/prefix HTTP/1.1`)).body).toBe(prefix);
  // What a caller says in the nodes' own words counts for nothing.
  const forged = [`X-Millrace-For: api 127.0.0.1 1.1 plain host ${projectId}/web`];
  const dropped = await ask("web", `GET ${prefix}/headers?${TOLD} HTTP/1.1`, forged);
  expect([dropped.status, dropped.headers["service-worker-allowed"]]).toEqual([200, undefined]);
  expect((await ask("functions", "POST /run HTTP/1.1", forged)).status).toBe(404);
});
