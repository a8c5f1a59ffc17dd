import { expect } from "vitest";
import { AppError } from "../../../src/model/errors.ts";
import { Condition } from "../../../src/kit/concurrency.ts";
import { WITHOUT_WALLS, testService } from "../../support/service.ts";
import { openStream } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { AcceptGate, MAIN, ended, ledger, recordOf } from "./site.ts";

const CONTINUE = { headers: { "x-disconnect": "continue" } };
/** Nobody listens there. */
const WEBHOOK = { suffix: "?webhookEndpoint=http%3A%2F%2F127.0.0.1%3A9%2F" };
const FLAGS = { webhookAllow: "127.0.0.0/8" };
const APP = { app: { main: MAIN } };

verifies(
  "run.remembered",
  "what somebody comes back for is stored before it begins, and of a plain call nothing is",
  async () => {
    const gate = new AcceptGate();
    const service = await testService(APP, { ...FLAGS, ...WITHOUT_WALLS }, gate);
    let accepts = 0;
    let letGo: () => void = () => {};
    const news = new Condition();
    gate.accept = async (write) => {
      accepts += 1;
      news.notify();
      await new Promise<void>((resolve) => (letGo = resolve));
      await write();
    };
    expect((await service.call("app", { n: "plain" })).status).toBe(200);
    const plain = openStream(service, "app", { to: 2 }, { functionName: "count" });
    await plain.ended();
    expect([accepts, plain.data, ledger(service, "app")]).toEqual([0, ["0", "1"], ["plain", "2"]]);
    for (const [place, options] of [CONTINUE, WEBHOOK].entries()) {
      const call = service.call("app", { n: place }, options);
      await until("it is on its way into the store", () => accepts === 1, news);
      expect(ledger(service, "app")).not.toContain(String(place));
      letGo();
      const { status, json } = await call;
      expect([status, json.result]).toEqual([200, place]);
      // Its end is written down as that of any stored run.
      const record = await ended(service, "app", json.run_id);
      expect(record).toMatchObject({ status: "success", async: false, attempt: 1, result: place });
      accepts = 0;
    }
    const stream = openStream(service, "app", { to: 3 }, { functionName: "count", ...CONTINUE });
    await until("it is on its way into the store", () => accepts === 1, news);
    letGo();
    await stream.ended();
    expect([stream.isWhole, stream.data]).toEqual([true, ["0", "1", "2"]]);
    expect(await ended(service, "app", stream.runId)).toMatchObject({ status: "success", statusCode: 200 });
  },
);

verifies("run.remembered", "what cannot be stored is refused, and does not begin", async () => {
  const gate = new AcceptGate();
  const service = await testService(APP, { ...FLAGS, ...WITHOUT_WALLS }, gate);
  gate.accept = () => Promise.reject(new AppError("storage_unavailable"));
  for (const options of [CONTINUE, WEBHOOK]) {
    const { status, json } = await service.call("app", { n: "never" }, options);
    expect([status, json.code]).toEqual([503, "storage_unavailable"]);
  }
  const { status, json } = await service.call("app", { n: "plain" });
  expect([status, ledger(service, "app")]).toEqual([200, ["plain"]]);
  await service.service.settle();
  expect((await recordOf(service, "app", json.run_id)).status).toBe("success");
});
