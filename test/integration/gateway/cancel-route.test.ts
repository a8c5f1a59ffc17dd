import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import type { Run } from "../../../src/model/run.ts";
import { type Answer, type TestService, testService, WITHOUT_WALLS } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openStream } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import time

def note(run_id, line):
    with open(run_id, "a") as notes:
        notes.write(line + "\\n")

def ticking(run_id):
    try:
        while True:
            yield "tick"
            time.sleep(0.02)
    finally:
        note(run_id, "closed")

def eager(run_id):
    try:
        while True:
            yield "x" * 1000
    finally:
        note(run_id, "closed")

def slow(run_id):
    note(run_id, "begun")
    try:
        time.sleep(3600)
    finally:
        note(run_id, "stopped")

def plain():
    return "done"
`;

const ASYNC = `
import asyncio

async def ticking(run_id):
    try:
        while True:
            yield "tick"
            await asyncio.sleep(0.02)
    finally:
        with open(run_id, "a") as notes:
            notes.write("closed\\n")

async def plain():
    return "done"
`;

const one = "[scaling]\nmax_replicas = 1\n";
const service = sharedService(
  {
    app: { main: MAIN, toml: one },
    looped: { main: ASYNC, toml: `${one}replica_concurrency = 4\n` },
    threads: { main: MAIN, toml: `${one}replica_concurrency = 4\n` },
    open: { main: MAIN, toml: `${one}[deployment]\ndisable_auth = true\n` },
  },
  WITHOUT_WALLS,
);

type CancelOptions = { token?: string | null; method?: string; on?: TestService };

const cancel = (app: string, id: string, { token, method, on = service() }: CancelOptions = {}) =>
  on.call(app, "", {
    functionName: `runs/${id}/cancel`,
    ...(token !== undefined && { token }),
    ...(method !== undefined && { method }),
  });

const told = ({ status, json }: Answer): unknown[] => [status, json.code];
const live = (app: string) => service().apps.get(app);

function notes(app: string, runId: string): string[] {
  try {
    return readFileSync(path.join(service().bundleDir(app), runId), "utf8")
      .trim()
      .split("\n");
  } catch {
    return [];
  }
}

/** The ids of the calls in the hands of an app's replicas. */
const running = (app: string): string[] =>
  [...(live(app)?.pool.replicas ?? [])].flatMap(({ calls }) => [...calls.values()].map(({ runId }) => runId));

async function record(app: string, id: string): Promise<Run | null> {
  await service().service.settle();
  return (await service().service.store.runs.find({ appNumber: live(app)?.app.number ?? 0, id })) ?? null;
}

describe("POST …/runs/{id}/cancel", () => {
  for (const app of ["app", "looped", "threads"]) {
    verifies(
      ["runs.cancel", "runs.cancel.generator"],
      `answers 202; the stream ends with an error, its generator is closed (${app})`,
      async () => {
        const reader = openStream(service(), app, {}, { functionName: "ticking" });
        await reader.hasMessages(2);
        const answer = await cancel(app, reader.runId);
        expect([answer.status, answer.json]).toEqual([202, { run_id: reader.runId }]);
        await reader.ended();
        const last = reader.messages.at(-1);
        expect([reader.isWhole, last?.event]).toEqual([false, "error"]);
        expect(JSON.parse(last?.data ?? "")).toMatchObject({
          code: "cancelled",
          request_id: reader.runId,
        });
        await until("its finally has run", () => notes(app, reader.runId).includes("closed"));
        await until("the slot is free", () => running(app).length === 0);
        expect(await record(app, reader.runId)).toMatchObject({ state: "cancelled", statusCode: null });
        expect((await service().call(app, {}, { functionName: "plain" })).json.result).toBe("done");
      },
    );
  }

  verifies("runs.cancel.generator", "closes a generator that waits for its reader", async () => {
    const reader = openStream(service(), "app", {}, { functionName: "eager" });
    await reader.hasMessages(1);
    reader.socket.pause();
    expect((await cancel("app", reader.runId)).status).toBe(202);
    await until("its finally has run", () => notes("app", reader.runId).includes("closed"));
    reader.socket.resume();
    expect((await reader.ended()).messages.at(-1)?.event).toBe("error");
  });

  verifies("runs.cancel", "ends a sync run: its caller gets 499, its code is stopped", async () => {
    const call = service().call("app", {}, { functionName: "slow" });
    await until("it runs", () => running("app").length === 1);
    const [id = ""] = running("app");
    await until("it has begun", () => notes("app", id).includes("begun"));
    expect((await cancel("app", id)).status).toBe(202);
    expect(told(await call)).toEqual([499, "cancelled"]);
    await until("the code has stopped", () => notes("app", id).includes("stopped"));
    expect(await record("app", id)).toMatchObject({ state: "cancelled", statusCode: null });
  });

  verifies("runs.cancel.finished", "is 409 for a run that has ended, however it ended", async () => {
    const { json } = await service().call("app", {}, { functionName: "plain" });
    // At once, when its record may not be stored yet, and later.
    expect(told(await cancel("app", json.run_id))).toEqual([409, "run_finished"]);
    await service().service.settle();
    expect(told(await cancel("app", json.run_id))).toEqual([409, "run_finished"]);
    const reader = openStream(service(), "app", {}, { functionName: "ticking" });
    await reader.hasMessages(1);
    expect((await cancel("app", reader.runId)).status).toBe(202);
    expect(told(await cancel("app", reader.runId))).toEqual([409, "run_finished"]);
  });

  test("is 404 for a run that is not there, or is another app's, running or ended", async () => {
    const unknown = "01900000-0000-7000-8000-000000000000";
    expect(told(await cancel("app", unknown))).toEqual([404, "run_not_found"]);
    expect(told(await cancel("nothing", unknown))).toEqual([404, "app_not_found"]);
    const reader = openStream(service(), "app", {}, { functionName: "ticking" });
    await reader.hasMessages(1);
    expect(told(await cancel("looped", reader.runId))).toEqual([404, "run_not_found"]);
    await reader.hasMessages(reader.messages.length + 3);
    expect((await cancel("app", reader.runId)).status).toBe(202);
    // Its record is not stored yet.
    expect(told(await cancel("looped", reader.runId))).toEqual([404, "run_not_found"]);
    await service().service.settle();
    expect(told(await cancel("looped", reader.runId))).toEqual([404, "run_not_found"]);
    for (const path of ["runs", "runs/x/cancel", `runs/${unknown}/stop`, `runs/${unknown}/cancel/x`]) {
      expect(told(await service().call("app", "", { functionName: path }))).toEqual([404, "not_found"]);
    }
  });

  verifies("runs.token", "needs a token, also for a public app whose runs need none", async () => {
    for (const app of ["app", "open"]) {
      const options = { functionName: "ticking", ...(app === "open" && { token: null }) };
      const reader = openStream(service(), app, {}, options);
      await reader.hasMessages(1);
      for (const token of [null, "no-token"]) {
        const answer = await cancel(app, reader.runId, { token });
        expect(told(answer)).toEqual([401, "unauthorized"]);
        expect(answer.headers.get("www-authenticate")).toMatch(/^Bearer/);
      }
      await reader.hasMessages(reader.messages.length + 3);
      expect((await cancel(app, reader.runId)).status).toBe(202);
      await reader.ended();
    }
  });

  test("is 405 by any other method, with the one that is allowed", async () => {
    const { json } = await service().call("app", {}, { functionName: "plain" });
    for (const method of ["GET", "PUT", "DELETE", "PATCH"]) {
      const answer = await cancel("app", json.run_id, { method });
      expect([method, ...told(answer), answer.headers.get("allow")]).toEqual([
        method,
        405,
        "method_not_allowed",
        "POST",
      ]);
    }
  });

  test("carries a request id of its own, not the run's", async () => {
    const reader = openStream(service(), "app", {}, { functionName: "ticking" });
    await reader.hasMessages(1);
    const { headers } = await cancel("app", reader.runId);
    expect(headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    expect(headers.get("x-request-id")).not.toBe(reader.runId);
  });

  test("works while the service is stopping, when it takes no calls any more", async () => {
    const stopping = await testService({ app: { main: MAIN, toml: one } }, WITHOUT_WALLS);
    const reader = openStream(stopping, "app", {}, { functionName: "ticking" });
    await reader.hasMessages(1);
    const stopped = stopping.service.stop();
    const isReady = async (): Promise<boolean> => (await fetch(`${stopping.service.baseUrl}/readyz`)).ok;
    await until("it takes no calls", async () => !(await isReady()));
    expect(told(await stopping.call("app", {}, { functionName: "plain" }))).toEqual([503, "draining"]);
    await reader.hasMessages(reader.messages.length + 3);
    expect((await cancel("app", reader.runId, { on: stopping })).status).toBe(202);
    expect(JSON.parse((await reader.ended()).data.at(-1) ?? "")).toMatchObject({ code: "cancelled" });
    await stopped;
  });
});
