import { describe, expect } from "vitest";
import { type Answer, type CallOptions, WITHOUT_WALLS } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC, MAIN, ONE, ended, ledger, letGo } from "./site.ts";

const app = { main: MAIN, toml: ONE };
const service = sharedService(
  {
    app,
    other: app,
    open: { main: MAIN, toml: `${ONE}[deployment]\ndisable_auth = true\n` },
  },
  WITHOUT_WALLS,
);

/** A call with a key. */
async function keyed(
  key: string,
  body: unknown,
  { app: name = "app", ...options }: CallOptions & { app?: string } = {},
): Promise<Answer> {
  return await service().call(name, body, {
    ...options,
    headers: { "idempotency-key": key, ...options.headers },
  });
}

const told = ({ status, json, headers }: Answer): unknown[] => [
  status,
  json.code,
  headers.get("idempotent-replayed"),
];
const linesOf = (line: string, name = "app"): number =>
  ledger(service(), name).filter((other) => other === line).length;

describe("the same key and call", () => {
  verifies(
    ["idempotency.finished", "response.request-id.replay"],
    "of a finished run is its stored answer, byte for byte, under the first one's id",
    async () => {
      for (const [functionName, body, status] of [
        ["run", { n: "a" }, 200],
        ["fail", { n: "b" }, 500],
        ["status", { code: 418 }, 418],
        ["status", { code: 204 }, 204],
        ["count", { to: 3 }, 200],
      ] as const) {
        const key = `finished ${functionName} ${status}`;
        const first = await keyed(key, body, { functionName });
        expect([first.status, first.headers.get("idempotent-replayed")]).toEqual([status, null]);
        await ended(service(), "app", first.headers.get("x-request-id") ?? "");
        const again = await keyed(key, body, { functionName });
        expect([again.status, again.text]).toEqual([status, first.text]);
        expect(again.headers.get("content-type")).toBe(first.headers.get("content-type"));
        expect(again.headers.get("x-request-id")).toBe(first.headers.get("x-request-id"));
        expect(again.headers.get("idempotent-replayed")).toBe("true");
      }
      expect(["a", "b", "418", "204", "3"].map((line) => linesOf(line))).toEqual([1, 1, 1, 1, 1]);
    },
  );

  verifies("idempotency.finished", "of a large answer is that answer too", async () => {
    const body = { n: "x".repeat(100_000) };
    const first = await keyed("large", body);
    await ended(service(), "app", first.headers.get("x-request-id") ?? "");
    const again = await keyed("large", body);
    expect([again.status, again.text === first.text]).toEqual([200, true]);
  });

  verifies("idempotency.unfinished", "of a run or a stream under way is 409", async () => {
    const test = service();
    const name = await test.own(app);
    const held = keyed("hold", {}, { app: name, functionName: "hold" });
    await until("it runs", () => ledger(test, name).length === 1);
    const again = await keyed("hold", {}, { app: name, functionName: "hold" });
    expect(told(again)).toEqual([409, "run_unfinished", null]);
    letGo(test, name);
    expect(again.headers.get("x-request-id")).toBe((await held).headers.get("x-request-id"));
    const leaving = new AbortController();
    const tick = { app: name, functionName: "tick" };
    const stream = keyed("tick", {}, { ...tick, signal: leaving.signal });
    const { app: deployed } = test.apps.get(name)!;
    await until("the stream is known", async () => {
      const runs = await test.service.store.runs.list({ appNumber: deployed.number, limit: 10 });
      return runs.some(({ functionName }) => functionName === "tick");
    });
    await until("its code runs", () => ledger(test, name).includes("ticking"));
    expect(told(await keyed("tick", {}, tick))).toEqual([409, "run_unfinished", null]);
    leaving.abort();
    await stream.catch(() => undefined);
    await until("the stream is closed", () => ledger(test, name).includes("closed"));
  });

  verifies("idempotency.async", "of an async run is the same 202, before and after its end", async () => {
    const first = await keyed("async", { n: "c" }, ASYNC);
    const { run_id: id } = first.json;
    expect([first.status, first.headers.get("idempotent-replayed")]).toEqual([202, null]);
    const again = await keyed("async", { n: "c" }, ASYNC);
    await ended(service(), "app", id);
    const later = await keyed("async", { n: "c" }, ASYNC);
    for (const answer of [again, later]) {
      expect([answer.status, answer.text]).toEqual([202, `{"run_id":"${id}"}`]);
      expect(answer.headers.get("x-request-id")).toBe(id);
      expect(answer.headers.get("location")).toBe(first.headers.get("location"));
      expect(answer.headers.get("idempotent-replayed")).toBe("true");
    }
    expect(linesOf("c")).toBe(1);
  });
});

verifies(
  ["idempotency.different", "idempotency.fingerprint"],
  "the same key with another function, query or body is 422, and runs nothing",
  async () => {
    expect((await keyed("one", { n: "d" }, { suffix: "?async=false" })).status).toBe(200);
    for (const [body, options] of [
      [{ n: "other" }, { suffix: "?async=false" }],
      ['{"n": "d"}', { suffix: "?async=false" }],
      [{ n: "d" }, { suffix: "" }],
      [{ n: "d" }, ASYNC],
      [{ n: "d" }, { suffix: "/v1/sub?async=false" }],
      [{ n: "d" }, { functionName: "hold", suffix: "?async=false" }],
    ] as const) {
      expect(told(await keyed("one", body, options))).toEqual([422, "idempotency_mismatch", null]);
    }
    expect([linesOf("d"), linesOf("other")]).toEqual([1, 0]);
  },
);

verifies("idempotency.key", "a key counts for its app alone, and has 1 to 255 characters", async () => {
  await keyed("shared", { n: "e" });
  expect((await keyed("shared", { n: "f" }, { app: "other" })).status).toBe(200);
  const longest = "k".repeat(255);
  expect((await keyed(longest, { n: "g" })).status).toBe(200);
  expect((await keyed(`${longest}k`, { n: "g" })).status).toBe(400);
  expect((await keyed("", { n: "g" })).status).toBe(400);
  expect(linesOf("g")).toBe(1);
});

verifies("idempotency.public", "on a public app the key counts only for who shows a token", async () => {
  const open = { app: "open" };
  for (let i = 0; i < 2; i++) {
    const answer = await keyed("k", { n: "anonymous" }, { ...open, token: null });
    expect(told(answer)).toEqual([200, undefined, null]);
  }
  expect(linesOf("anonymous", "open")).toBe(2);
  expect(told(await keyed("k", { n: "known" }, open))).toEqual([200, undefined, null]);
  await until("it is stored", async () => (await keyed("k", { n: "known" }, open)).status === 200);
  expect(told(await keyed("k", { n: "known" }, open))).toEqual([200, undefined, "true"]);
  expect(linesOf("known", "open")).toBe(1);
  expect((await keyed("k", { n: "bad" }, { ...open, token: "not-a-token" })).status).toBe(200);
});
