import { expect, test } from "vitest";
import { SkippingClock } from "../../support/clocks.ts";
import { RUNS_MAIN, letGo, runningId } from "../../support/run-apps.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openStream } from "../../support/stream-reader.ts";
import { verifies } from "../../verifies.ts";

const clock = new SkippingClock();
const service = sharedService(
  { app: { main: RUNS_MAIN, toml: "[scaling]\nmax_replicas = 2\n" } },
  {},
  { clock },
);

const result = (id: string, wait?: number | string) =>
  service().ofRun("app", id, "result", {
    ...(wait !== undefined && { headers: { prefer: `wait=${wait}` } }),
  });

verifies("runs.result.unfinished", "an unfinished run's result is 202, with when to ask again", async () => {
  const answered = service().call("app", { gate: "unfinished" }, { functionName: "held" });
  const id = await runningId(service(), "app", "held");
  for (const wait of [undefined, 0]) {
    const { status, headers, json } = await result(id, wait);
    expect([status, json]).toEqual([202, { run_id: id, status: "running" }]);
    expect(headers.get("retry-after")).toBe("1");
    expect(headers.get("preference-applied")).toBe(wait === undefined ? null : "wait=0");
  }
  letGo(service(), "app", "unfinished");
  await answered;
});

verifies("runs.result.unfinished", "a stream under way has no result yet", async () => {
  const body = { gate: "stream", before: 2, after: 1 };
  const reader = openStream(service(), "app", body, { functionName: "gated" });
  await reader.hasMessages(2);
  expect((await result(reader.runId)).status).toBe(202);
  letGo(service(), "app", "stream");
  expect((await reader.ended()).isWhole).toBe(true);
  expect((await result(reader.runId, 10)).text).toBe(reader.text);
});

verifies("runs.result.wait", "Prefer: wait=N blocks until the run ends, and no longer", async () => {
  const answered = service().call("app", { gate: "wait" }, { functionName: "held" });
  const id = await runningId(service(), "app", "held");
  const waiting = [result(id, 3600), result(id, '"3000"')];
  expect((await result(id)).status).toBe(202);
  letGo(service(), "app", "wait");
  const { text } = await answered;
  for (const { status, headers, text: again } of await Promise.all(waiting)) {
    expect([status, again]).toEqual([200, text]);
    expect(headers.get("preference-applied")).toMatch(/^wait=3[06]00$/);
  }
});

verifies("runs.result.wait", "a run that outlasts the wait is 202 again", async () => {
  const answered = service().call("app", { gate: "outlast" }, { functionName: "held" });
  const id = await runningId(service(), "app", "held");
  const answer = result(id, 47);
  let isAnswered = false;
  void answer.then(() => (isAnswered = true));
  await clock.sets(47_000);
  clock.skip(24_000);
  expect((await result(id)).status).toBe(202);
  expect(isAnswered).toBe(false);
  clock.skip(24_000);
  const { status, headers } = await answer;
  expect([status, headers.get("retry-after"), headers.get("preference-applied")]).toEqual([
    202,
    "1",
    "wait=47",
  ]);
  letGo(service(), "app", "outlast");
  await answered;
});

verifies("runs.result.wait", "a run that fails or is cancelled ends the wait too", async () => {
  const answered = service().call("app", { gate: "never" }, { functionName: "held" });
  const id = await runningId(service(), "app", "held");
  const waiting = result(id, 3600);
  expect((await result(id)).status).toBe(202);
  await service().ofRun("app", id, "cancel", { method: "POST" });
  expect([(await waiting).status, (await waiting).json.code]).toEqual([499, "cancelled"]);
  await answered;
});

test("a caller who leaves while it waits disturbs nobody", async () => {
  const answered = service().call("app", { gate: "leave" }, { functionName: "held" });
  const id = await runningId(service(), "app", "held");
  const left = new AbortController();
  const gone = service().ofRun("app", id, "result", { headers: { prefer: "wait=60" }, signal: left.signal });
  expect((await result(id)).status).toBe(202);
  left.abort();
  await expect(gone).rejects.toThrow("aborted");
  letGo(service(), "app", "leave");
  expect((await answered).status).toBe(200);
  expect((await result(id, 10)).status).toBe(200);
});
