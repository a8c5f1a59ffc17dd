import { describe, expect, test } from "vitest";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { WAIT_FOR, letGo } from "../../support/run-apps.ts";
import type { TestService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

/** Leaves a file for each call, and waits for those it is told to. */
const ECHO = `${WAIT_FOR}
def run(n, wait_for_files=[]):
    for file in wait_for_files:
        wait_for(file)
    open(gate_file("run-%d" % n), "w").close()
    return n
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

const service = sharedService({ app: { main: ECHO, toml: "[scaling]\nmax_replicas = 2\n" } });

describe("one connection", () => {
  test("answers pipelined calls in the order of the requests, though the first takes longest", async () => {
    await using connection = await RawConnection.open(service().service.apiUrl);
    const first = { n: 0, wait_for_files: ["run-1", "run-2"] };
    connection.send([first, { n: 1 }, { n: 2 }].map((body) => call(service(), body)).join(""));
    await connection.answer(2);
    const results = connection.answers.map(({ body }) => (JSON.parse(body) as { result: unknown }).result);
    expect(results).toEqual([0, 1, 2]);
  });

  test("serves a call after every kind of refusal by the app", async () => {
    await using connection = await RawConnection.open(service().service.apiUrl);
    const bodies = [{ n: "x" }, { n: 1, wait_for_files: [0.5] }, { m: 1 }, { n: 1 }];
    for (const body of bodies) connection.send(call(service(), body));
    await connection.answer(3);
    expect(connection.answers.map(({ status }) => status)).toEqual([500, 500, 422, 200]);
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
  // What is not slow here arrives in one piece, and all of it within a second.
  const times = { headerTimeoutMs: 1_000, bodyTimeout: "1500ms" };
  const limited = sharedService({ app: { main: ECHO, toml: "[scaling]\nmax_replicas = 1\n" } }, times);

  verifies("limits.slow-request", "is 408 and closed while its headers are still coming", async () => {
    await using connection = await RawConnection.open(limited().service.apiUrl);
    const drip = setInterval(() => connection.send("X"), 50);
    connection.send("POST / HTTP/1.1\r\nX-Slow: ");
    await connection.closed().finally(() => clearInterval(drip));
    expect(connection.answers).toMatchObject([{ status: 408, headers: { connection: "close" } }]);
  });

  verifies(
    "limits.slow-request",
    "a body that never ends, or is shorter than it says, is 408 and runs nothing; a function may take longer",
    async () => {
      const { apiUrl } = limited().service;
      const before = await countRuns(limited());
      await using running = await RawConnection.open(apiUrl);
      running.send(call(limited(), { n: 1, wait_for_files: ["slow"] }));
      await until("the function runs", () => {
        const [replica] = limited().apps.get("app")?.pool.replicas ?? [];
        return replica?.calls.size === 1;
      });
      const slow = [
        ["Transfer-Encoding: chunked", "1\r\n{\r\n"],
        ["Content-Length: 100", '{"n":1}'],
      ] as const;
      for (const connection of await Promise.all(
        slow.map(async ([header, start]) => {
          const opened = await RawConnection.open(apiUrl);
          opened.send(post(limited(), [header], start));
          return opened;
        }),
      )) {
        await connection.closed();
        expect(connection.answers).toMatchObject([{ status: 408 }]);
        expect(JSON.parse(connection.answers[0]?.body ?? "")).toMatchObject({ code: "request_timeout" });
      }
      letGo(limited(), "app", "slow");
      expect(await running.answer()).toMatchObject({ status: 200 });
      expect(await countRuns(limited())).toBe(before + 1);
    },
  );
});
