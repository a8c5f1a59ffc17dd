import { rmSync } from "node:fs";
import { connect } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { AppError } from "../../../src/model/errors.ts";
import { type Answer, WITHOUT_WALLS } from "../../support/service.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { AcceptGate, MAIN, ONE, bundleFile, ended, ledger, letGo, recordOf } from "./site.ts";

const HOLD = { functionName: "hold" };
const wait = (seconds: number): { headers: Record<string, string> } => ({
  headers: { prefer: `wait=${seconds}` },
});

const LATE_STREAM = `
def late():
    hold("late")
    def chunks():
        yield "a"
        note("streaming")
        yield "b"
    return chunks()
`;

const APP = { main: MAIN, toml: ONE };
const gate = new AcceptGate();
const clock = new SkippingClock();
const service = sharedService({ app: APP }, WITHOUT_WALLS, { clock, aroundStore: gate.aroundStore });

verifies("run.prefer.wait", "a run that ends in time is answered as without it", async () => {
  const answer = await service().call("app", { n: 3 }, wait(30));
  expect([answer.status, answer.json.result]).toEqual([200, 3]);
  const id = answer.headers.get("x-request-id") ?? "";
  await service().service.settle();
  expect(await recordOf(service(), "app", id)).toMatchObject({ async: false, status: "success" });
});

verifies(
  ["run.prefer.wait", "run.prefer.202", "run.prefer.applied", "run.prefer.async-from-then"],
  "after N seconds the caller has the 202 of the same run, which is async from then on",
  async () => {
    const test = service();
    const name = await test.own(APP);
    let isAnswered = false;
    const call = test.call(name, { n: 4 }, { ...HOLD, ...wait(600) });
    void call.then(() => (isAnswered = true));
    await until("it runs", () => ledger(test, name).length === 1);
    clock.skip(500_000);
    // A whole other call goes by: an answer would have had the time.
    expect((await test.call("app")).status).toBe(200);
    expect(isAnswered).toBe(false);
    clock.skip(100_000);
    const answer = await call;
    const { run_id: id } = answer.json;
    expect([answer.status, answer.text]).toEqual([202, `{"run_id":"${id}"}`]);
    expect(answer.headers.get("x-request-id")).toBe(id);
    expect(answer.headers.get("preference-applied")).toBe("wait=600");
    expect(answer.headers.get("location")).toBe(test.url(name, `runs/${id}`));
    const { app } = test.apps.get(name)!;
    const stored = await test.service.store.runs.find({ appNumber: app.number, id });
    expect(stored).toMatchObject({ isAsync: true, state: "running", statusCode: null });
    expect(await recordOf(test, name, id)).toMatchObject({ async: true, status: "running" });
    letGo(test, name);
    expect(await ended(test, name, id)).toMatchObject({ async: true, status: "success", result: 4 });
    expect(ledger(test, name)).toEqual(["4"]);
  },
);

verifies(
  "run.prefer.202",
  "a run that still waits is adopted too, and leaving does not drop it",
  async () => {
    const test = service();
    const app = await test.own(APP);
    const first = test.call(app, { n: 1 }, HOLD);
    await until("one runs", () => ledger(test, app).length === 1);
    const { hostname, port, pathname } = new URL(test.url(app));
    const socket = connect(Number(port), hostname);
    const head = [
      `POST ${pathname} HTTP/1.1`,
      "Host: x",
      `Authorization: Bearer ${test.service.owner.token}`,
    ];
    socket.write([...head, "Prefer: wait=0", "Content-Length: 0", "", ""].join("\r\n"));
    let text = "";
    // Gone with the first byte of the 202.
    await new Promise<void>((resolve) =>
      socket.once("data", (data) => {
        text = String(data);
        socket.destroy();
        resolve();
      }),
    );
    const [, id = ""] = /"run_id":"([^"]+)"/.exec(text) ?? [];
    letGo(test, app);
    expect((await first).status).toBe(200);
    expect(await ended(test, app, id)).toMatchObject({ async: true, status: "success" });
  },
);

verifies(
  ["run.prefer.202", "idempotency.async"],
  "with a key it is the same: 202 while it goes on, for the call again too, then its stored answer",
  async () => {
    const test = service();
    const app = await test.own(APP);
    const call = async (): Promise<Answer> =>
      await test.call(app, {}, { ...HOLD, headers: { prefer: "wait=0", "idempotency-key": "k" } });
    const first = await call();
    const { run_id: id } = first.json;
    expect([first.status, first.headers.get("preference-applied")]).toEqual([202, "wait=0"]);
    expect(await recordOf(test, app, id)).toMatchObject({ async: true });
    const again = await call();
    expect([again.status, again.text]).toEqual([202, first.text]);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    letGo(test, app);
    expect(await ended(test, app, id)).toMatchObject({ async: true, status: "success" });
    const last = await call();
    expect([last.status, last.json.run_id, last.json.result]).toEqual([200, id, 0]);
    expect(ledger(test, app)).toEqual(["0"]);
  },
);

test("a caller whose run cannot be stored just goes on waiting, for a stream too", async () => {
  let refused = 0;
  const on = service();
  const app = await on.own({ main: `${MAIN}${LATE_STREAM}`, toml: ONE });
  onTestFinished(() => void (gate.accept = null));
  gate.accept = async () => {
    refused += 1;
    // The function goes on while the store tries.
    letGo(on, app);
    const isOn = (): boolean => ledger(on, app).includes(refused === 1 ? "1" : "streaming");
    await until("the function has gone on", isOn);
    throw new AppError("storage_unavailable");
  };
  const answer = await on.call(app, { n: 1 }, { ...HOLD, ...wait(0) });
  expect([answer.status, answer.json.result, answer.headers.get("preference-applied")]).toEqual([
    200,
    1,
    null,
  ]);
  rmSync(bundleFile(on, app, "go"));
  const stream = await on.call(app, {}, { functionName: "late", ...wait(0) });
  expect([stream.status, stream.text]).toEqual([200, "data: a\n\ndata: b\n\n"]);
  expect(refused).toBe(2);
});
