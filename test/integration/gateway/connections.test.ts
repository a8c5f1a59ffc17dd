import { describe, expect, test } from "vitest";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import type { TestService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const ECHO = `
import time

def run(seconds=0, **members):
    time.sleep(seconds)
    return members
`;

function post({ service }: TestService, headers: readonly string[], body = ""): string {
  const { owner } = service;
  const line = `POST /v4/${owner.projectId}/app/run HTTP/1.1`;
  const always = ["Host: x", `Authorization: Bearer ${owner.token}`, "Content-Type: application/json"];
  return rawRequest(line, [...always, ...headers], body);
}

function call(test: TestService, members: object): string {
  const body = JSON.stringify(members);
  return post(test, [`Content-Length: ${body.length}`], body);
}

async function countRuns({ service, apps }: TestService): Promise<number> {
  await service.settle();
  return await service.store.runs.count({ appNumber: apps.get("app")?.app.number ?? 0 });
}

describe("one connection", () => {
  const service = sharedService({ app: { main: ECHO, toml: "[scaling]\nmax_replicas = 2\n" } });

  test("answers pipelined calls in the order of the requests, though the first takes longest", async () => {
    await using connection = await RawConnection.open(service().service.apiUrl);
    connection.send(
      [{ seconds: 0.3, n: 0 }, { n: 1 }, { n: 2 }].map((body) => call(service(), body)).join(""),
    );
    await connection.answer(2);
    const results = connection.answers.map(({ body }) => (JSON.parse(body) as { result: unknown }).result);
    expect(results).toEqual([{ n: 0 }, { n: 1 }, { n: 2 }]);
  });

  test("serves a call after every kind of refusal by the app", async () => {
    await using connection = await RawConnection.open(service().service.apiUrl);
    const bodies = [{ seconds: "x" }, { seconds: -1 }, { n: 1 }];
    for (const body of bodies) connection.send(call(service(), body));
    await connection.answer(2);
    expect(connection.answers.map(({ status }) => status)).toEqual([500, 500, 200]);
  });

  test("takes a call that arrives byte by byte", async () => {
    await using connection = await RawConnection.open(service().service.apiUrl);
    for (const byte of call(service(), { n: 1 })) {
      connection.send(byte);
      await new Promise(setImmediate);
    }
    expect(await connection.answer()).toMatchObject({ status: 200 });
  });

  verifies("limits.headers", "headers over 16 KiB are 431, and the next caller is served", async () => {
    await using connection = await RawConnection.open(service().service.apiUrl);
    connection.send(post(service(), [`X-Long: ${"a".repeat(17_000)}`]));
    const refused = await connection.answer();
    expect(refused.status).toBe(431);
    expect(JSON.parse(refused.body)).toMatchObject({ code: "headers_too_large" });
    await connection.closed();
    expect(await service().call("app", { n: 1 })).toMatchObject({ status: 200 });
  });
});

describe("Expect: 100-continue", () => {
  const service = sharedService({ app: { main: ECHO } });

  test("is answered 100, then the body is read", async () => {
    await using connection = await RawConnection.open(service().service.apiUrl);
    connection.send(post(service(), ["Content-Length: 7", "Expect: 100-continue"]));
    expect(await connection.answer()).toMatchObject({ status: 100 });
    connection.send('{"n":1}');
    expect(await connection.answer(1)).toMatchObject({ status: 200 });
  });

  for (const [title, status, lengthBytes, type] of [
    ["a long body", 413, 99_999_999, "application/json"],
    ["a short body", 415, 10, "text/plain"],
  ] as const) {
    test(`is answered with the refusal itself for ${title}, and what follows is no request`, async () => {
      await using connection = await RawConnection.open(service().service.apiUrl);
      const before = await countRuns(service());
      const held = post(service(), [`Content-Length: ${lengthBytes}`, "Expect: 100-continue"]);
      connection.send(held.replace("application/json", type) + call(service(), { n: 1 }));
      await connection.closed();
      expect(connection.answers.map((answer) => answer.status)).toEqual([status]);
      expect(await countRuns(service())).toBe(before);
    });
  }
});

describe("a request that arrives slowly", () => {
  const times = { headerTimeout: "300ms", bodyTimeout: "600ms" };
  const service = sharedService({ app: { main: ECHO } }, times);

  verifies("limits.slow-request", "is 408 and closed while its headers are still coming", async () => {
    await using connection = await RawConnection.open(service().service.apiUrl);
    const drip = setInterval(() => connection.send("X"), 50);
    connection.send("POST / HTTP/1.1\r\nX-Slow: ");
    await connection.closed().finally(() => clearInterval(drip));
    expect(connection.answers).toMatchObject([{ status: 408, headers: { connection: "close" } }]);
  });

  for (const [kind, header, start] of [
    ["chunked body never ends", "Transfer-Encoding: chunked", "1\r\n{\r\n"],
    ["body is shorter than it says", "Content-Length: 100", '{"n":1}'],
  ] as const) {
    verifies("limits.slow-request", `is 408 and runs nothing when its ${kind}`, async () => {
      const before = await countRuns(service());
      await using connection = await RawConnection.open(service().service.apiUrl);
      connection.send(post(service(), [header], start));
      await connection.closed();
      expect(connection.answers).toMatchObject([{ status: 408 }]);
      expect(JSON.parse(connection.answers[0]?.body ?? "")).toMatchObject({ code: "request_timeout" });
      expect(await countRuns(service())).toBe(before);
    });
  }

  test("is another thing than a function that takes long", async () => {
    expect(await service().call("app", { seconds: 1 })).toMatchObject({ status: 200 });
  });
});
