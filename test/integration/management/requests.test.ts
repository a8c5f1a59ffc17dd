import { connect } from "node:net";
import { beforeAll, expect, test } from "vitest";
import { ManagementSite } from "../../support/management-site.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const service = sharedService({ hello: { main: "def run():\n    return 1\n" } });
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});

const JSON_TYPE = { "content-type": "application/json" };

/** Bytes as they are, to the listener, and what it says before it closes. */
async function raw(text: string): Promise<string> {
  const { port } = new URL(site.test.service.baseUrl);
  const socket = connect(Number(port), "127.0.0.1");
  socket.write(text);
  let answer = "";
  for await (const chunk of socket) answer += String(chunk);
  return answer;
}

verifies(
  "management.empty-body",
  "an empty body of type JSON is no body, on every operation and method",
  async () => {
    const wrong: unknown[] = [];
    for (const { id, method, path, requestBody } of site.operations) {
      const url = path.replace("{project_id}", site.projectId).replaceAll(/\{\w+\}/g, "none");
      const plain = await site.ask(method, url);
      const empty = await site.ask(method, url, method === "GET" ? { headers: JSON_TYPE } : { body: "" });
      const isSame = plain.status === empty.status && plain.json?.code === empty.json?.code;
      // Making and throttling differ from one time to the next.
      if (!isSame && empty.status !== 429) wrong.push([id, plain.status, empty.status, empty.text]);
      if (empty.status === 415 || empty.json?.code === "invalid_json") wrong.push([id, empty.text]);
      if (requestBody?.required === true && empty.status < 400)
        wrong.push([id, "needs a body", empty.status]);
    }
    expect(wrong).toEqual([]);
    for (const method of ["PUT", "PATCH", "DELETE", "POST"]) {
      expect((await site.ask(method, "/v2/hardware", { body: "" })).status).toBe(405);
    }
  },
);

test("members that nobody knows are ignored, in bodies and in queries", async () => {
  const body = { name: "ci", unheardOf: { of: [1] }, __proto__: { role: "run" }, constructor: 1 };
  const { status, json } = await site.ask("POST", "service-accounts?region=x", { body });
  expect([status, json.name, json.role]).toEqual([200, "ci", "admin"]);
  const polluted = '{"name":"ci","__proto__":{"role":"run"}}';
  expect((await site.ask("POST", "service-accounts", { body: polluted })).json.role).toBe("admin");
  expect((await site.ask("GET", "apps?region=us-east-1&page=2")).status).toBe(200);
});

verifies("management.errors", "errors have the body and the headers of the run endpoint", async () => {
  const answers = [
    await site.ask("GET", "/nowhere"),
    await site.ask("GET", "apps/none"),
    await site.ask("GET", "apps", { as: "nobody" }),
    await site.ask("PUT", "apps"),
    await site.ask("POST", "service-accounts", { body: "{" }),
    await site.ask("POST", "service-accounts", { body: { name: "" } }),
    await site.ask("POST", "service-accounts", { body: "a=b", headers: { "content-type": "text/plain" } }),
    await site.ask("POST", "service-accounts", {
      body: "a=b",
      headers: { "content-type": "multipart/form-data" },
    }),
    await site.ask("POST", "service-accounts", { body: `"${"x".repeat(5_000_000)}"` }),
    await site.ask("GET", "/%zz"),
    await site.ask("GET", `/v2/projects/${"x".repeat(600)}/apps`),
  ];
  expect(answers.map(({ status, json }) => [status, json.code])).toEqual([
    [404, "not_found"],
    [404, "app_not_found"],
    [401, "unauthorized"],
    [405, "method_not_allowed"],
    [400, "invalid_json"],
    [400, "bad_request"],
    [415, "unsupported_media_type"],
    [415, "unsupported_media_type"],
    [413, "body_too_large"],
    [400, "bad_request"],
    [404, "not_found"],
  ]);
  const schema = site.schema(site.document.components.schemas.Error);
  for (const { json, headers } of answers) {
    expect(schema.safeParse(json).success).toBe(true);
    expect(json.request_id).toBe(headers.get("x-request-id"));
    expect(json.error).toMatchObject({ code: json.code, message: json.message });
    expect(headers.get("x-content-type-options")).toBe("nosniff");
  }
  expect(answers[5]?.json.details).toEqual([{ field: "name", problem: expect.any(String) }]);
});

test("who asks is looked at before what is asked", async () => {
  const huge = `"${"x".repeat(5_000_000)}"`;
  for (const body of ["{", huge, { name: "" }]) {
    expect((await site.ask("POST", "service-accounts", { as: "nobody", body })).status).toBe(401);
    expect((await site.ask("POST", "service-accounts", { as: "run", body })).status).toBe(403);
  }
});

test("a body with hundreds of faults is told of a few", async () => {
  const body = Object.fromEntries(
    Array.from({ length: 400 }, (_, place) => [`${"k".repeat(400)}${place}`, 1]),
  );
  const { status, json, text } = await site.ask("PATCH", "secrets", { body });
  expect([status, json.details.length]).toEqual([400, 20]);
  expect(text.length).toBeLessThan(20_000);
});

test("every path says which methods it has", async () => {
  const byPath = Map.groupBy(site.operations, ({ path }) => path);
  expect(byPath.size).toBeGreaterThan(30);
  for (const [path, operations] of byPath) {
    const methods = operations.map(({ method }) => method);
    const other = ["PATCH", "PUT", "DELETE", "POST"].find((method) => !methods.includes(method)) ?? "";
    const url = path.replaceAll(/\{\w+\}/g, "none");
    const answer = await site.ask(other, url, { as: "nobody", body: "{" });
    const allow = methods.includes("GET") ? [...methods, "HEAD"] : methods;
    expect([path, answer.status, answer.headers.get("allow")]).toEqual([path, 405, allow.join(", ")]);
  }
});

test("HEAD is answered as GET without its body", async () => {
  const [got, headed] = [await site.ask("GET", "apps"), await site.ask("HEAD", "apps")];
  expect([headed.status, headed.text]).toEqual([200, ""]);
  expect(headed.headers.get("content-length")).toBe(got.headers.get("content-length"));
  expect((await site.ask("HEAD", "apps", { as: "nobody" })).status).toBe(401);
});

test("a token in the query or in a cookie, and two of them, are not taken", async () => {
  const { admin } = site.tokens;
  expect((await site.ask("GET", `apps?token=${admin}`, { as: "nobody" })).status).toBe(401);
  expect(
    (await site.ask("GET", "apps", { as: "nobody", headers: { cookie: `token=${admin}` } })).status,
  ).toBe(401);
  const line = `Authorization: Bearer ${admin}\r\n`;
  const head = `GET /v2/projects HTTP/1.1\r\nHost: x\r\nConnection: close\r\n`;
  expect(await raw(`${head}${line}\r\n`)).toMatch(/^HTTP\/1.1 200 /);
  expect(await raw(`${head}${line}${line}\r\n`)).toMatch(/^HTTP\/1.1 400 /);
});

test("what is no HTTP, and a host that is none, are refused in the same form", async () => {
  const answers = await Promise.all([
    raw("nonsense\r\n\r\n"),
    raw(`GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${"x".repeat(20_000)}\r\n\r\n`),
    raw("GET /livez HTTP/1.1\r\nHost: a b<c\r\nConnection: close\r\n\r\n"),
  ]);
  const codes = answers.map((text) => JSON.parse(text.slice(text.indexOf("\r\n\r\n"))).code);
  expect(codes).toEqual(["bad_request", "headers_too_large", "bad_request"]);
  for (const text of answers) expect(text.toLowerCase()).toContain("x-request-id: ");
});
