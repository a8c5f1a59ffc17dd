import { describe, expect, test } from "vitest";
import { SkippingClock } from "../../support/clocks.ts";
import { WAIT_FOR, letGo, runningId } from "../../support/run-apps.ts";
import { type Answer, testService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openStream } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `${WAIT_FOR}
def run(gate=None):
    """Gives the milliseconds it took."""
    started = time.perf_counter()
    if gate:
        wait_for(gate)
    return (time.perf_counter() - started) * 1000

def fail():
    raise ValueError("no")
`;

const clock = new SkippingClock();
const service = sharedService({ app: { main: MAIN, toml: "[scaling]\nmax_replicas = 1\n" } }, {}, { clock });
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const FORGED = "01900000-0000-7000-8000-000000000000";

describe("X-Request-Id", () => {
  verifies(
    "response.request-id",
    "of a run call is the run's id, a UUIDv7 of now, new each time",
    async () => {
      const ids = new Set<string>();
      for (const functionName of ["run", "fail", "run"]) {
        clock.skip(20_000);
        const sentAt = clock.now();
        const { headers, json } = await service().call("app", {}, { functionName });
        const id = headers.get("x-request-id") ?? "";
        ids.add(id);
        expect(id).toMatch(UUID);
        expect(id[14]).toBe("7");
        expect(id).toBe(json.run_id ?? json.request_id);
        const mintedAt = Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16);
        const times = [sentAt, mintedAt, clock.now()];
        expect(times).toEqual(times.toSorted((a, b) => a - b));
      }
      expect(ids.size).toBe(3);
      await service().service.settle();
      const appNumber = service().apps.get("app")?.app.number ?? 0;
      for (const id of ids)
        expect(await service().service.store.runs.find({ appNumber, id })).toMatchObject({ id });
    },
  );

  verifies(
    "response.request-id.elsewhere",
    "of any other answer is a fresh UUID, on both planes",
    async () => {
      const { apiUrl, baseUrl } = service().service;
      const seen = new Set<string>();
      const targets = [
        `${apiUrl}/`,
        `${apiUrl}/nothing`,
        `${baseUrl}/livez`,
        `${baseUrl}/readyz`,
        `${baseUrl}/nothing`,
      ];
      for (const target of [...targets, ...targets]) {
        const id = (await fetch(target)).headers.get("x-request-id") ?? "";
        expect(id).toMatch(UUID);
        seen.add(id);
      }
      expect(seen.size).toBe(targets.length * 2);
    },
  );

  verifies("response.request-id.not-adopted", "is never the caller's own", async () => {
    const headers = { "x-request-id": FORGED };
    const { apiUrl, baseUrl } = service().service;
    const answers = [
      (await service().call("app", {}, { headers })).headers,
      (await service().call("app", {}, { headers, token: null })).headers,
      (await fetch(`${apiUrl}/nothing`, { headers })).headers,
      (await fetch(`${baseUrl}/livez`, { headers })).headers,
    ];
    for (const answer of answers) expect(answer.get("x-request-id")).not.toBe(FORGED);
  });
});

describe("Server-Timing", () => {
  function timing({ headers }: Answer): Record<string, number> {
    const parts = (headers.get("server-timing") ?? "").split(", ").map((part) => part.split(";dur="));
    return Object.fromEntries(parts.map(([name = "", ms]) => [name, Number(ms)]));
  }

  /** Longer than any test takes: what is above it was skipped, what is below was not. */
  const SKIPPED_MS = 300_000;

  verifies("response.server-timing", "tells queue, start and run in milliseconds", async () => {
    const { pool } = await service().deploy("cold", { main: `${MAIN}\nwait_for("import")\n` });
    const called = service().call("cold", { gate: "run" });
    await until("the app starts", () => pool.replicas.size === 1 && pool.slots.waiting === 1);
    clock.skip(SKIPPED_MS);
    letGo(service(), "cold", "import");
    await runningId(service(), "cold", "run");
    letGo(service(), "cold", "run");
    const answer = await called;
    const cold = timing(answer);
    expect(Object.keys(cold)).toEqual(["queue", "start", "run"]);
    expect(cold["start"]).toBeGreaterThanOrEqual(SKIPPED_MS);
    expect(cold["queue"]).toBeLessThan(SKIPPED_MS);
    expect(cold["run"]).toBeLessThan(SKIPPED_MS);
    // In hundredths.
    expect(cold["run"]).toBeGreaterThanOrEqual((answer.json.result as number) - 0.01);
    expect(cold["run"]).toBe(answer.json.run_time_ms);
    expect(timing(await service().call("cold"))["start"]).toBe(0);
  });

  verifies("response.server-timing", "counts the wait for a busy replica as queue", async () => {
    await service().call("app");
    const first = service().call("app", { gate: "busy" });
    await runningId(service(), "app", "run");
    const second = service().call("app");
    await until("it waits", () => service().apps.get("app")?.pool.slots.waiting === 1);
    clock.skip(SKIPPED_MS);
    letGo(service(), "app", "busy");
    const { queue, start, run } = timing(await second);
    expect(queue).toBeGreaterThanOrEqual(SKIPPED_MS);
    expect(start).toBe(0);
    expect(run).toBeLessThan(SKIPPED_MS);
    await first;
  });

  verifies(
    "response.server-timing",
    "has a run where the function failed, and none where it never ran",
    async () => {
      expect(Object.keys(timing(await service().call("app", {}, { functionName: "fail" })))).toContain("run");
      expect(Object.keys(timing(await service().call("app", { other: 1 })))).toEqual(["queue", "start"]);
      expect((await service().call("nothing")).headers.get("server-timing")).toBeNull();
    },
  );
});

describe("a page of another origin", () => {
  const origin = "https://page.example";
  const preflight = (headers: Record<string, string>) =>
    fetch(service().url("app"), { method: "OPTIONS", headers });

  verifies(
    "cors.preflight",
    "gets its preflight answered without a token, whatever it asks to send",
    async () => {
      const asked = "authorization, content-type, x-disconnect";
      const answer = await preflight({
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": asked,
      });
      expect([answer.status, await answer.text()]).toEqual([204, ""]);
      expect(answer.headers.get("access-control-allow-origin")).toBe("*");
      expect(answer.headers.get("access-control-allow-methods")).toContain("POST");
      expect(answer.headers.get("access-control-allow-headers")).toBe(asked);
      expect(answer.headers.get("x-request-id")).toMatch(UUID);
    },
  );

  verifies(
    ["cors.exposed", "cors.no-cookies"],
    "sees the six headers on answers and errors, and no answer allows credentials",
    async () => {
      const headers = { origin };
      const answers = [
        (await service().call("app", {}, { headers })).headers,
        (await service().call("app", {}, { headers, functionName: "fail" })).headers,
        (await service().call("app", {}, { headers, token: null })).headers,
        (await service().call("app", "{", { headers })).headers,
        (await fetch(`${service().service.apiUrl}/nothing`, { headers })).headers,
        (await preflight({ origin, "access-control-request-method": "POST" })).headers,
      ];
      for (const answer of answers) {
        expect(answer.get("access-control-allow-origin")).toBe("*");
        const exposed = answer.get("access-control-expose-headers")?.toLowerCase().split(", ");
        const ofQuotas = ["ratelimit", "ratelimit-policy"];
        const others = ["location", "retry-after", "server-timing", "x-request-id"];
        expect(exposed?.toSorted()).toEqual([...ofQuotas, ...others].toSorted());
        expect(answer.get("access-control-allow-credentials")).toBeNull();
        expect(answer.get("set-cookie")).toBeNull();
      }
      expect((await service().call("app")).headers.get("access-control-allow-origin")).toBeNull();
    },
  );

  verifies(
    "cors.narrowed",
    "is refused its reading when the origins are narrowed and it is none of them",
    async () => {
      const narrow = await testService(
        { app: { main: "def run():\n    return 1\n\ndef stream():\n    yield 1\n" } },
        { corsOrigins: "https://one.example,https://two.example" },
      );
      for (const [from, allowed] of [
        ["https://one.example", "https://one.example"],
        ["https://two.example", "https://two.example"],
        ["https://one.example.evil.example", null],
        ["http://one.example", null],
        ["null", null],
      ] as const) {
        const { headers } = await narrow.call("app", {}, { headers: { origin: from } });
        expect([from, headers.get("access-control-allow-origin")]).toEqual([from, allowed]);
        // A cache must not give one origin's answer to another.
        expect(headers.get("vary")).toBe("Origin");
        const asked = { origin: from, "access-control-request-method": "POST" };
        const answer = await fetch(narrow.url("app"), { method: "OPTIONS", headers: asked });
        expect(answer.headers.get("access-control-allow-origin")).toBe(allowed);
        expect(answer.headers.get("access-control-allow-methods") === null).toBe(allowed === null);
        const options = { functionName: "stream", headers: { origin: from } };
        const reader = await openStream(narrow, "app", {}, options).ended();
        expect(reader.header("access-control-allow-origin")).toBe(allowed);
        expect(reader.header("vary")).toBe("Accept-Encoding, Origin");
        reader.leave();
      }
    },
  );

  test("cannot use a preflight to learn of an address that is not there", async () => {
    const answer = await fetch(`${service().service.apiUrl}/nothing`, {
      method: "OPTIONS",
      headers: { origin },
    });
    expect(answer.status).toBe(404);
  });
});
