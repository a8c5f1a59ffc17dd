import { rm } from "node:fs/promises";
import path from "node:path";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createLog } from "../../../src/kit/log.ts";
import { startService } from "../../../src/main.ts";
import { checkerOf, openApiFaults } from "../../support/openapi-faults.ts";
import { RawConnection } from "../../support/raw-http.ts";
import { valuesOf } from "../../support/schema-values.ts";
import { type CallOptions, type TestService, testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

type Json = Record<string, any>; // oxlint-disable-line no-explicit-any

const MAIN = `
import dataclasses, datetime, enum, typing

class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"

@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.5
    color: Color = Color.RED
    when: typing.Optional[datetime.date] = None

def run(n: int, point: Point, names: typing.List[str] = [], *, run_id) -> typing.Dict[str, int]:
    """Adds.

    At length.
    """
    return {"n": n}

def made(x: int) -> Point:
    return Point(x)

def anything(**rest):
    return rest

def nothing():
    return None

def count(n: int) -> typing.Iterator[int]:
    yield from range(n)

async def later(kind: typing.Literal["a", "b"], pair: typing.Tuple[int, str]) -> bool:
    return True
`;

const service = sharedService({
  app: { main: MAIN },
  open: { main: MAIN, toml: "[deployment]\ndisable_auth = true\n" },
  lenient: { main: MAIN, toml: '[deployment]\nextra_params = "ignore"\n' },
  broken: { main: "raise ValueError('no')\n" },
});

async function ask(app: string, options: CallOptions = {}, from: TestService = service()) {
  return await from.call(app, "", { method: "GET", ...options, functionName: "openapi.json" });
}

async function documentOf(app: string): Promise<Json> {
  const { status, headers, json } = await ask(app);
  expect([status, headers.get("content-type")]).toEqual([200, "application/json"]);
  expect(openApiFaults(json)).toEqual([]);
  return json as Json;
}

const bodyOf = (document: Json, name: string): Json =>
  document["paths"][`/${name}`].post.requestBody.content["application/json"].schema;

describe("the document of an app", () => {
  verifies(
    ["deploy.openapi", "apps.openapi"],
    "describes its functions, before any of them was called",
    async () => {
      const fresh = await service().deploy("fresh", { main: MAIN });
      expect(fresh.pool.functions).toBeNull();
      const document = await documentOf("fresh");
      const { projectId } = service().service.owner;
      expect(document).toMatchObject({
        info: { title: "fresh", version: "1" },
        servers: [{ url: `${service().service.apiUrl}/v4/${projectId}/fresh` }],
        security: [{ bearerAuth: [] }],
      });
      expect(Object.keys(document["paths"])).toEqual(
        ["run", "made", "anything", "nothing", "count", "later"].map((name) => `/${name}`),
      );
      expect(document["paths"]["/run"].post).toMatchObject({ summary: "Adds.", description: "At length." });
      expect(bodyOf(document, "run")).toEqual({
        type: "object",
        properties: {
          n: { type: "integer" },
          point: { $ref: "#/components/schemas/Point" },
          names: { type: "array", items: { type: "string" }, default: [] },
        },
        required: ["n", "point"],
        additionalProperties: false,
      });
      await service().deploy("fresh", { main: `${MAIN}\ndef more():\n    pass\n` });
      expect(await documentOf("fresh")).toMatchObject({ info: { version: "2" }, paths: { "/more": {} } });
    },
  );

  verifies("deploy.openapi", "is kept to: what it takes is taken, what it promises comes", async () => {
    const document = await documentOf("app");
    const resolved = JSON.parse(
      JSON.stringify(document, (_, value: Json) => {
        const [, name] = /^#\/components\/schemas\/(.+)$/.exec(value?.["$ref"] ?? "") ?? [];
        return name === undefined ? value : document["components"].schemas[name];
      }),
    ) as Json;
    let calls = 0;
    for (const [place, { post }] of Object.entries<Json>(document["paths"])) {
      const functionName = place.slice(1);
      for (const body of fc.sample(valuesOf(bodyOf(resolved, functionName)), 10)) {
        const { status, text, json } = await service().call("app", body, { functionName });
        expect([functionName, body, status, text]).toEqual([functionName, body, 200, text]);
        const [[type, { schema }]] = Object.entries<Json>(post.responses["200"].content) as [[string, Json]];
        if (type === "application/json") {
          expect(checkerOf(document, schema).safeParse(json)).toMatchObject({ success: true });
        } else {
          const item = checkerOf(document, post.responses["200"].content[type]["x-item-schema"]);
          for (const [, data = ""] of text.matchAll(/^data: (.*)$/gm))
            expect(item.safeParse(JSON.parse(data))).toMatchObject({ success: true });
        }
        calls += 1;
      }
      const schema = bodyOf(document, functionName);
      for (const name of (schema["required"] ?? []) as string[]) {
        const refused = await service().call("app", {}, { functionName });
        expect(refused.json.details).toContainEqual({ field: name, problem: "missing" });
        const error = post.responses["422"].content["application/json"].schema;
        expect(checkerOf(document, error).safeParse(refused.json)).toMatchObject({ success: true });
      }
      const extra = await service().call("app", { unheardOf: 1 }, { functionName });
      expect([place, extra.status]).toEqual([place, schema["additionalProperties"] === false ? 422 : 200]);
    }
    expect(calls).toBe(60);
  });

  test("says what becomes of members that no parameter takes", async () => {
    const [strict, lenient] = await Promise.all([documentOf("app"), documentOf("lenient")]);
    expect(bodyOf(strict, "made")).toMatchObject({ additionalProperties: false });
    expect(bodyOf(strict, "anything")).toMatchObject({ additionalProperties: {} });
    expect(bodyOf(lenient, "made")).toMatchObject({ additionalProperties: true });
  });

  test("is given without a token where the app is public, and only there", async () => {
    const open = await ask("open", { token: null });
    expect([open.status, openApiFaults(open.json)]).toEqual([200, []]);
    expect(open.text).not.toContain("bearer");
    for (const token of [null, "no-token"]) {
      const answer = await ask("app", { token });
      expect([answer.status, answer.json.code]).toEqual([401, "unauthorized"]);
      expect(answer.headers.get("www-authenticate")).toMatch(/^Bearer/);
    }
    const { tokens, store } = service().service;
    await store.projects.insert({ id: "p-else", name: "else", createdAt: Date.now() });
    const expiresAt = Date.now() + 3_600_000;
    const { token } = await tokens.issue({ projectId: "p-else", name: "x", role: "run", expiresAt });
    const answer = await ask("app", { token });
    expect([answer.status, answer.json.code]).toEqual([403, "forbidden"]);
  });

  test("is 404 without an app, 405 by another method, and may be asked for by a page", async () => {
    expect((await ask("none")).json.code).toBe("app_not_found");
    expect((await ask("none", { token: null })).json.code).toBe("unauthorized");
    for (const method of ["POST", "PUT", "DELETE", "PATCH", "HEAD"]) {
      const answer = await ask("app", { method });
      expect([method, answer.status, answer.headers.get("allow")]).toEqual([method, 405, "GET"]);
    }
    const headers = { origin: "https://page.example", "access-control-request-method": "GET" };
    expect((await ask("app", { method: "OPTIONS", headers })).status).toBe(204);
    const answer = await ask("app", { headers: { origin: "https://page.example" } });
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    expect(answer.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("of an app that cannot start is 503 with the reason", async () => {
    const answer = await ask("broken");
    expect([answer.status, answer.json.code]).toEqual([503, "app_not_ready"]);
    expect(answer.json.message).toContain("ValueError: no");
    expect(answer.headers.get("retry-after")).toMatch(/^\d+$/);
  });
});

test("the address in a document is the one that was asked", async () => {
  const { apiUrl, owner } = service().service;
  const place = `/v4/${owner.projectId}/open`;
  const servers = async (rest: string): Promise<unknown> => {
    const connection = await RawConnection.open(apiUrl);
    connection.send(`GET ${place}/openapi.json ${rest}\r\n\r\n`);
    const { body } = await connection.answer();
    connection.socket.destroy();
    return (JSON.parse(body) as Json)["servers"];
  };
  expect(await servers("HTTP/1.1\r\nhost: apps.example:99")).toEqual([
    { url: `http://apps.example:99${place}` },
  ]);
  expect(await servers("HTTP/1.0")).toEqual([{ url: place }]);
});

test("a version that was once started is described without starting it again", async () => {
  const first = await testService({ app: { main: MAIN } });
  const told = await ask("app", {}, first);
  const { store } = first.service;
  const { id = "" } = first.apps.get("app")?.version ?? {};
  await until("they are stored", async () => (await store.versions.find(id))?.functions != null);
  await first.service.stop();
  await rm(path.join(first.bundleDir("app"), "main.py"));
  const again = await startService(first.settings, { log: createLog("silent") });
  try {
    const url = `${again.apiUrl}/v4/${again.owner.projectId}/app/openapi.json`;
    const response = await fetch(url, { headers: { authorization: `Bearer ${again.owner.token}` } });
    const { servers, ...document } = (await response.json()) as Json;
    expect(servers).toHaveLength(1);
    expect(told.json).toMatchObject(document);
    expect(Object.keys(document["paths"])).toHaveLength(6);
  } finally {
    await again.stop();
  }
});
