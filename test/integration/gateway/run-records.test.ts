import { describe, expect, test } from "vitest";
import type { Run } from "../../../src/model/run.ts";
import { runRecord } from "../../../src/shapes/runs.ts";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { WAIT_FOR, letGo, runningId } from "../../support/run-apps.ts";
import { sampleEnd } from "../../support/sample-run.ts";
import type { Answer } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `${WAIT_FOR}
def run(code=200):
    return {"status_code": code}

def held(gate):
    """Gives the milliseconds it took."""
    started = time.perf_counter()
    wait_for(gate)
    return (time.perf_counter() - started) * 1000

def fail():
    raise ValueError("no")
`;

const clock = new SkippingClock();
const service = sharedService({ app: { main: MAIN } }, {}, { clock });

/** Longer than any test takes: what is above it was skipped, what is below was not. */
const SKIPPED_MS = 300_000;

function app() {
  const live = service().apps.get("app");
  if (!live) throw new Error("the app is not there");
  return live.app;
}

/** Calls a function and gives what is stored of the run. */
async function recordOf(body: object, functionName = "run"): Promise<Run> {
  return await recordOfCall(service().call("app", body, { functionName }));
}

async function recordOfCall(call: Promise<Answer>): Promise<Run> {
  const { headers } = await call;
  await service().service.settle();
  const id = headers.get("x-request-id") ?? "";
  const run = await service().service.store.runs.find({ appNumber: app().number, id });
  if (!run) throw new Error(`there is no record of ${id}`);
  return run;
}

describe("the record of a sync run", () => {
  test("says who, what, when and how it ended", async () => {
    const before = clock.now();
    const call = service().call("app", { gate: "gate" }, { functionName: "held" });
    await runningId(service(), "app", "held");
    clock.skip(SKIPPED_MS);
    letGo(service(), "app", "gate");
    const run = await recordOfCall(call);
    const record = runRecord(run, app());
    expect(record).toMatchObject({
      id: run.id,
      projectId: service().service.owner.projectId,
      modelId: `${service().service.owner.projectId}-app`,
      functionName: "held",
      method: "POST",
      async: false,
      status: "success",
      statusCode: 200,
      attempt: 1,
      containerId: expect.stringMatching(/^r-/) as string,
      ip: expect.stringContaining("127.0.0.1") as string,
      webhookStatus: "none",
      error: null,
    });
    const times = [record.createdAt, record.startedAt, record.completedAt].map((at) => Date.parse(at ?? ""));
    const [created = 0, started = 0, completed = 0] = times;
    // They are whole milliseconds.
    const inOrder = [before, created, started, completed + 1 - SKIPPED_MS, clock.now() + 2 - SKIPPED_MS];
    expect(inOrder).toEqual(inOrder.toSorted((a, b) => a - b));
    expect(record.queueTimeMs).toBeLessThan(SKIPPED_MS);
    expect(record.responseTimeMs).toBeGreaterThanOrEqual(SKIPPED_MS);
    // How long the code took, its process says, and has skipped nothing.
    expect(record.runtimeMs).toBeLessThan(SKIPPED_MS);
    expect(record.runtimeMs).toBeGreaterThanOrEqual(((await call).json.result as number) - 0.01);
  });

  verifies("run-record.success", "is success if and only if its status is under 400", async () => {
    for (const code of [200, 204, 302, 399, 400, 404, 499, 500, 599]) {
      const { state, statusCode } = await recordOf({ code });
      expect([statusCode, state]).toEqual([code, code < 400 ? "success" : "failure"]);
    }
    expect(await recordOf({}, "fail")).toMatchObject({ state: "failure", statusCode: 500 });
    expect(await recordOf({ other: 1 })).toMatchObject({ state: "failure", statusCode: 422 });
  });

  verifies("run-record.error", "carries code and message of what the caller was told", async () => {
    const record = runRecord(await recordOf({}, "fail"), app());
    expect(record.error).toEqual({ code: "app_error", message: "ValueError: no" });
    expect(runRecord(await recordOf({}), app()).error).toBeNull();
  });

  verifies("run-record.final", "is final: a later write of the same run changes nothing", async () => {
    const run = await recordOf({});
    const other = { ...run, state: "failure", statusCode: 500, errorCode: "internal", updatedAt: 1 } as const;
    await service().service.store.runs.insertFinished([packEnded([sampleEnd(other)])]);
    expect(await service().service.store.runs.find({ appNumber: app().number, id: run.id })).toEqual(run);
  });

  test("is not made for a request that was refused before it became a run", async () => {
    await service().service.settle();
    const before = await service().service.store.runs.count({});
    await service().call("app", {}, { token: null });
    await service().call("app", {}, { method: "PUT" });
    await service().call("app", "{");
    await service().call("app", {}, { functionName: "nothing" });
    await service().service.settle();
    expect(await service().service.store.runs.count({})).toBe(before);
  });
});
