import { describe, expect, test } from "vitest";
import {
  AppFailed,
  Busy,
  Cancelled,
  InvalidArguments,
  Millrace,
  NotFound,
  StillRunning,
  Unauthorized,
} from "../../../src/client/client.ts";
import { letGo, runningId } from "../../support/run-apps.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { CuttingProxy } from "./cutting-proxy.ts";
import { CLIENTS_MAIN, clientOf, newGate } from "./site.ts";

const ONE = "[scaling]\nmax_replicas = 1\n";
const service = sharedService({
  app: { main: CLIENTS_MAIN, toml: "[scaling]\nmax_replicas = 2\n" },
  one: { main: CLIENTS_MAIN, toml: ONE },
  busy: { main: CLIENTS_MAIN, toml: `${ONE}max_queue = 1\n` },
  open: { main: CLIENTS_MAIN, toml: "[deployment]\ndisable_auth = true\n" },
});

async function statusOf(app: string, id: string): Promise<string> {
  return (await clientOf(service()).app(app).find(id).record()).status;
}

describe("run", () => {
  verifies("client.typescript", "gives what the function returned, and of which run", async () => {
    const client = clientOf(service());
    const answer = await client.run<{ message: string }>("app", { name: "Ada" });
    expect(answer).toEqual({
      runId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      result: { message: "Hello, Ada!" },
      runTimeMs: expect.any(Number),
      status: 200,
    });
    expect(answer.result.message).toBe("Hello, Ada!");
    expect((await client.app("app").run({ value: [1, "ž", null] }, { function: "echo" })).result).toEqual([
      1,
      "ž",
      null,
    ]);
    expect((await client.run("app")).result).toEqual({ message: "Hello, World!" });
    expect(await client.app("app").find(answer.runId).record()).toMatchObject({
      id: answer.runId,
      status: "success",
    });
  });

  verifies("client.typescript", "takes a status that the function set for a result", async () => {
    const teapot = await clientOf(service()).run("app", { code: 418 }, { function: "code" });
    expect([teapot.status, teapot.result]).toEqual([418, { status_code: 418, why: "asked" }]);
    const nothing = await clientOf(service()).run("app", { code: 204 }, { function: "code" });
    expect([nothing.status, nothing.result]).toEqual([204, null]);
  });

  verifies("client.typescript", "throws an error of the class that stands for its code", async () => {
    const client = clientOf(service());
    const thrown = async (work: Promise<unknown>) => await work.catch((error: unknown) => error);
    const stranger = clientOf(service(), undefined, { token: "no" });
    expect(await thrown(stranger.run("app"))).toMatchObject({ code: "unauthorized", status: 401 });
    expect(await thrown(stranger.run("app"))).toBeInstanceOf(Unauthorized);
    expect(await thrown(client.run("none"))).toBeInstanceOf(NotFound);
    expect(await thrown(client.run("app", {}, { function: "none" }))).toMatchObject({
      code: "function_not_found",
    });
    const misfit = await thrown(client.run("app", { nmae: "Ada" }));
    expect(misfit).toBeInstanceOf(InvalidArguments);
    expect(misfit).toMatchObject({ status: 422, details: [expect.objectContaining({ field: "nmae" })] });
    const failed = await thrown(client.run("app", {}, { function: "fail" }));
    expect(failed).toBeInstanceOf(AppFailed);
    expect(failed).toMatchObject({ name: "AppFailed", message: "ValueError: no", status: 500 });
    expect((failed as AppFailed).requestId).toMatch(/^[0-9a-f-]{36}$/);
    expect(await thrown(client.run("app", { upto: 3 }, { function: "count" }))).toMatchObject({
      code: "is_stream",
    });
    const away = clientOf(service(), "http://127.0.0.1:9");
    expect(await thrown(away.run("app"))).toMatchObject({ name: "ConnectionLost", code: "connection_lost" });
  });

  verifies("client.typescript", "goes on as a run in the background when the time is over", async () => {
    const gate = newGate();
    const call = clientOf(service()).run("app", { gate }, { function: "held", timeoutSeconds: 1 });
    const error = await call.catch((thrown: unknown) => thrown);
    if (!(error instanceof StillRunning)) throw error;
    expect(await error.run.result()).toBeNull();
    await expect(error.run.wait({ timeoutSeconds: 0 })).rejects.toBeInstanceOf(StillRunning);
    letGo(service(), "app", gate);
    expect((await error.run.wait()).result).toBe("let go");
  });

  verifies("client.typescript", "that is aborted cancels the run", async () => {
    const leaving = new AbortController();
    const call = clientOf(service()).run(
      "app",
      { gate: "never" },
      { function: "held", signal: leaving.signal },
    );
    const id = await runningId(service(), "app", "held");
    leaving.abort(new Error("changed my mind"));
    await expect(call).rejects.toThrow("changed my mind");
    await until("it is cancelled", async () => (await statusOf("app", id)) === "cancelled");
  });

  verifies("client.typescript", "without a token calls a public app", async () => {
    const { apiUrl, owner } = service().service;
    const client = new Millrace({ url: `${apiUrl}/`, project: owner.projectId });
    expect((await client.run("open")).result).toEqual({ message: "Hello, World!" });
    const texts: string[] = [];
    for await (const text of client.stream("open", { upto: 3 }, { function: "count" })) texts.push(text);
    expect(texts).toEqual(["m1", "m2", "m3"]);
    await expect(client.run("app")).rejects.toBeInstanceOf(Unauthorized);
  });
});

describe("retries", () => {
  verifies(
    "client.typescript",
    "of a call that broke while it ran find the run, which ran once",
    async () => {
      const gate = newGate();
      const proxy = await CuttingProxy.open(service().service.apiUrl);
      const client = clientOf(service(), proxy.url);
      const call = client.run("app", { gate }, { function: "held", retries: 3 });
      const id = await runningId(service(), "app", "held");
      proxy.cutAll();
      await until("it came again", () => proxy.connections >= 2);
      letGo(service(), "app", gate);
      expect(await call).toMatchObject({ runId: id, result: "let go" });
    },
  );

  verifies("client.typescript", "of a call that broke while it waited have it run after all", async () => {
    const gate = newGate();
    const proxy = await CuttingProxy.open(service().service.apiUrl);
    const client = clientOf(service(), proxy.url);
    const blocking = await client.runAsync("one", { gate }, { function: "held" });
    await until("it runs", async () => (await blocking.record()).status === "running");
    const call = client.run("one", { value: 7 }, { function: "echo", retries: 10 });
    const waiting = (): number | undefined => service().apps.get("one")?.pool.slots.waiting;
    await until("the call waits", () => waiting() === 1);
    proxy.isDown = true;
    proxy.cutAll();
    await until("it is dropped", () => waiting() === 0);
    proxy.isDown = false;
    await until("it waits again", () => waiting() === 1);
    letGo(service(), "one", gate);
    expect((await call).result).toBe(7);
  });

  test("without them a call that is refused is Busy, and says when to come again", async () => {
    const gate = newGate();
    const client = clientOf(service());
    const blocking = await client.runAsync("busy", { gate }, { function: "held" });
    await until("it runs", async () => (await blocking.record()).status === "running");
    const waiting = client.run("busy");
    await until("a call waits", () => service().apps.get("busy")?.pool.slots.waiting === 1);
    const error = await client.run("busy").catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Busy);
    expect(error).toMatchObject({ code: "queue_full", retryAfterSeconds: expect.any(Number) });
    const later = client.run("busy", {}, { retries: 10 });
    letGo(service(), "busy", gate);
    for (const call of [waiting, later]) expect((await call).result).toEqual({ message: "Hello, World!" });
  });

  test("a key of one's own has the same call executed once", async () => {
    const client = clientOf(service());
    const first = await client.run("app", { value: 1 }, { function: "echo", idempotencyKey: "mine" });
    const again = await client.run("app", { value: 1 }, { function: "echo", idempotencyKey: "mine" });
    expect(again.runId).toBe(first.runId);
    const other = client.run("app", { value: 2 }, { function: "echo", idempotencyKey: "mine" });
    await expect(other).rejects.toMatchObject({ code: "idempotency_mismatch" });
  });
});

describe("runAsync", () => {
  verifies("client.typescript", "gives a run that can be looked at and waited for", async () => {
    const gate = newGate();
    const run = await clientOf(service()).runAsync<string>("app", { gate }, { function: "held" });
    expect(await run.result()).toBeNull();
    await until("it runs", async () => (await run.record()).status === "running");
    const waiting = run.wait();
    letGo(service(), "app", gate);
    expect(await waiting).toMatchObject({ runId: run.id, result: "let go", status: 200 });
    expect(await run.result()).toEqual(await waiting);
    expect(await run.record()).toMatchObject({ status: "success", async: true, result: "let go" });
    expect(await run.cancel()).toBe(false);
  });

  verifies(
    ["client.typescript", "terms.clients", "fair.clients"],
    "asks of the queue what its caller asks",
    async () => {
      const run = await clientOf(service()).runAsync(
        "app",
        {},
        {
          priority: "high",
          delay: new Date(Date.now() + 3_600_000),
          ttl: "90s",
          timeout: "2m",
          maxAttempts: 3,
          concurrencyKey: "k 1",
          fairnessKey: "line-1",
          tags: ["a", "b&c"],
        },
      );
      const { dueAt = "", startBy = "", endBy = "", ...record } = await run.record();
      expect(record).toMatchObject({ status: "queued", priority: 600, maxAttempts: 3, tags: ["a", "b&c"] });
      expect(record).toMatchObject({ concurrencyKey: "k 1", fairnessKey: "line-1" });
      const due = Date.parse(dueAt);
      expect([Date.parse(startBy) - due, Date.parse(endBy) - due]).toEqual([90_000, 120_000]);
      expect(await run.cancel()).toBe(true);
    },
  );

  verifies("client.typescript", "gives a run that can be cancelled", async () => {
    const run = await clientOf(service()).runAsync("app", { gate: "never" }, { function: "held" });
    await until("it runs", async () => (await run.record()).status === "running");
    const waiting = run.wait();
    expect(await run.cancel()).toBe(true);
    await expect(waiting).rejects.toBeInstanceOf(Cancelled);
  });

  verifies(
    "client.typescript",
    "of a function that fails or yields says so when it is waited for",
    async () => {
      const client = clientOf(service());
      const failing = await client.runAsync("app", {}, { function: "fail" });
      await expect(failing.wait()).rejects.toMatchObject({ name: "AppFailed", message: "ValueError: no" });
      const yielding = await client.runAsync("app", { upto: 3 }, { function: "count" });
      expect((await yielding.wait()).result).toEqual(["m1", "m2", "m3"]);
      const texts: string[] = [];
      for await (const text of yielding.stream()) texts.push(text);
      expect(texts).toEqual(["m1", "m2", "m3"]);
    },
  );
});
