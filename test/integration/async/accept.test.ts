import { request } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { describe, expect } from "vitest";
import { type Answer, type TestService, testService, WITHOUT_WALLS } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC, AcceptGate, MAIN, ONE, ended, ledger, letGo, look, recordOf, submit } from "./site.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const TAKES = `
def run(a, b=2):
    return [a, b]

def all(**members):
    return sorted(members)

def named(run_id, a=1):
    return run_id

def length(text):
    return len(text)
`;

const gate = new AcceptGate();
const service = sharedService(
  {
    app: { main: MAIN, toml: ONE },
    takes: { main: TAKES, toml: ONE },
    lenient: { main: TAKES, toml: `${ONE}[deployment]\nextra_params = "ignore"\n` },
  },
  WITHOUT_WALLS,
  { aroundStore: gate.aroundStore },
);

const told = ({ status, json }: Answer): unknown[] => [status, json.code, json.details];

describe("the 202", () => {
  verifies(
    ["async.202", "async.body", "async.request-id", "async.location"],
    "is to the letter: status, content type, one member, the id again, and where the run is",
    async () => {
      const answer = await service().call("app", { n: 1 }, ASYNC);
      expect(answer.status).toBe(202);
      expect(answer.headers.get("content-type")).toBe("application/json");
      const { run_id: id } = answer.json;
      expect(id).toMatch(UUID);
      expect(answer.text).toBe(`{"run_id":"${id}"}`);
      expect(answer.headers.get("x-request-id")).toBe(id);
      const { apiUrl, owner } = service().service;
      expect(answer.headers.get("location")).toBe(`${apiUrl}/v4/${owner.projectId}/app/runs/${id}`);
      const there = await look(service(), "app", id);
      expect([there.status, there.json.id]).toEqual([200, id]);
      await ended(service(), "app", id);
    },
  );

  verifies("async.location", "names the public address where one is set", async () => {
    const publicApiUrl = "https://apps.example/millrace";
    const { service: started, apiPort } = await onFreePort((port) =>
      testService({ app: { main: MAIN } }, { ...WITHOUT_WALLS, apiPort: port, publicApiUrl }),
    );
    const { owner } = started.service;
    const path = `v4/${owner.projectId}/app`;
    const answer = await fetch(`http://127.0.0.1:${apiPort}/${path}/run?async=true`, {
      method: "POST",
      headers: { authorization: `Bearer ${owner.token}` },
    });
    const { run_id: id } = (await answer.json()) as { run_id: string };
    expect(answer.headers.get("location")).toBe(`${publicApiUrl}/${path}/runs/${id}`);
  });

  verifies(
    "settings.public-urls.unset",
    "names the host that was asked where no address is set",
    async () => {
      const { hostname, port } = new URL(service().service.apiUrl);
      const { owner } = service().service;
      const path = `/v4/${owner.projectId}/app`;
      const headers = { host: "apps.example:8443", authorization: `Bearer ${owner.token}` };
      const location = await new Promise<string | undefined>((resolve, reject) => {
        request({ hostname, port, path: `${path}/run?async=true`, method: "POST", headers })
          .on("response", (answer) => resolve(answer.resume().headers.location))
          .on("error", reject)
          .end();
      });
      expect(location).toMatch(`http://apps.example:8443${path}/runs/`);
      await ended(service(), "app", location?.split("/").at(-1) ?? "");
    },
  );

  verifies(
    ["async.background", "async.no-response"],
    "comes while the function still runs, and nothing of the function's answer comes with it",
    async () => {
      const test = service();
      const app = await test.own({ main: MAIN, toml: ONE });
      const id = await submit(test, app, { n: 7 }, { functionName: "hold" });
      await until("it runs", async () => (await recordOf(test, app, id)).status === "running");
      // It is handed over: its code begins a moment later.
      await until("it has begun", () => ledger(test, app).length > 0);
      expect(ledger(test, app)).toEqual(["7"]);
      letGo(test, app);
      expect(await ended(test, app, id)).toMatchObject({ status: "success", result: 7, async: true });
    },
  );

  verifies("async.durable", "is sent only after the store has committed the run", async () => {
    const { promise: mayCommit, resolve: commit } = Promise.withResolvers<void>();
    const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
    let isCommitted = false;
    const test = service();
    const app = await test.own({ main: MAIN, toml: ONE });
    // The app is known: only its store is asked before the 202.
    await test.call(app, { n: "first" });
    gate.accept = async (write) => {
      ask();
      await mayCommit;
      await write();
      isCommitted = true;
    };
    const wasCommitted = submit(test, app).then(() => isCommitted);
    await asked;
    gate.accept = null;
    // A whole other call goes by: the 202 would have had the time.
    expect((await test.call(app, { n: "sync" })).status).toBe(200);
    expect([isCommitted, ledger(test, app)]).toEqual([false, ["first", "sync"]]);
    commit();
    expect(await wasCommitted).toBe(true);
  });
});

verifies("async.parameter", "async takes true or false, once", async () => {
  const ask = async (query: string): Promise<unknown[]> => {
    const { status, json } = await service().call("takes", { a: 1 }, { suffix: query });
    return [status, json.code ?? json.result ?? Object.keys(json)];
  };
  expect(await ask("?async=false")).toEqual([200, [1, 2]]);
  expect(await ask("?async=%74rue")).toEqual([202, ["run_id"]]);
  for (const value of ["", "1", "True", "TRUE", "yes", "true ", "null"]) {
    expect(await ask(`?async=${encodeURIComponent(value)}`)).toEqual([400, "bad_request"]);
  }
  for (const query of ["?async=true&async=true", "?async=true&async=false", "?async", "?async=true;async"]) {
    expect(await ask(query)).toEqual([400, "bad_request"]);
  }
});

describe("arguments", () => {
  verifies("run.body.async-422", "that do not fit are refused before the 202, each by name", async () => {
    const refused = await service().call("takes", { c: 1, b: 2, "d e": 3 }, ASYNC);
    const details = [
      { field: "a", problem: "missing" },
      { field: "c", problem: "unknown" },
      { field: "d e", problem: "unknown" },
    ];
    expect(told(refused)).toEqual([422, "invalid_arguments", details]);
    // To the letter what a sync caller is told.
    const sync = await service().call("takes", { c: 1, b: 2, "d e": 3 });
    expect(refused.json).toEqual({ ...sync.json, request_id: refused.headers.get("x-request-id") });
    expect(told(await service().call("takes", "", ASYNC))).toEqual([422, "invalid_arguments", [details[0]]]);
    const none = await look(service(), "takes", refused.headers.get("x-request-id") ?? "");
    expect(none.status).toBe(404);
  });

  verifies("run.body.async-422", "of an app that never ran are refused too", async () => {
    const test = service();
    const cold = await test.own({ main: TAKES });
    expect(test.apps.get(cold)?.pool.functions).toBe(null);
    expect((await test.call(cold, {}, ASYNC)).status).toBe(422);
    expect((await test.call(cold, { a: 1 }, { ...ASYNC, functionName: "none" })).status).toBe(404);
    const id = await submit(test, cold, { a: 1 });
    expect(await ended(test, cold, id)).toMatchObject({ status: "success", result: [1, 2] });
  });

  verifies("run.body.async-422", "are taken as the signature says", async () => {
    const result = async (app: string, functionName: string, body: unknown): Promise<unknown> => {
      const id = await submit(service(), app, body, { functionName });
      const { result: value } = await ended(service(), app, id);
      return value === id ? "its own id" : value;
    };
    expect(await result("takes", "all", { x: 1, y: { z: 2 } })).toEqual(["x", "y"]);
    expect(await result("lenient", "run", { a: 1, extra: 2 })).toEqual([1, 2]);
    expect(await result("takes", "named", { a: 1 })).toBe("its own id");
    expect(await result("takes", "named", "")).toBe("its own id");
    const lacking = await service().call("lenient", { extra: 1 }, ASYNC);
    expect(lacking.status).toBe(422);
  });

  verifies("run.body.async-422", "of more than 256 KiB are checked as well, and arrive whole", async () => {
    const text = "x".repeat(400_000);
    const options = { ...ASYNC, functionName: "length" };
    expect((await service().call("takes", { texts: text }, options)).status).toBe(422);
    expect((await service().call("takes", `{"text":"${text}"`, options)).status).toBe(400);
    const id = await submit(service(), "takes", { text }, options);
    expect((await ended(service(), "takes", id)).result).toBe(400_000);
    expect((await look(service(), "takes", id, "/input")).json).toEqual({ text });
  });
});

/** Starts a service on a port that was free a moment ago; on the next one, if somebody else has taken it since. */
async function onFreePort(
  start: (port: number) => Promise<TestService>,
): Promise<{ service: TestService; apiPort: number }> {
  for (;;) {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port: apiPort } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    try {
      return { service: await start(apiPort), apiPort };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    }
  }
}
