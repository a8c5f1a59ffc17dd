import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { AppError } from "../../../src/model/errors.ts";
import type { Store } from "../../../src/store/store.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { type Answer, testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { OnceClient, formOf, tarOf } from "./site.ts";

const HELLO = { "main.py": "print('hello')" };
const RUN_ID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/;
const lost = () => new AppError("in_doubt", {}, new Error("Connection terminated unexpectedly"));

/** A service whose accepts are done, and nobody hears of it. */
async function unheard(refuse: (store: Store) => Store["runs"]["refuse"] = ({ runs }) => runs.refuse) {
  const aroundStore = (store: Store): Store => ({
    ...store,
    runs: {
      ...store.runs,
      accept: async (batch) => {
        await store.runs.accept(batch);
        throw lost();
      },
      refuse: refuse(store),
    },
  });
  const clock = new SkippingClock();
  const test = await testService({}, {}, { aroundStore, clock });
  const client = new OnceClient(test, "doubtful");
  await client.post("create-run-app");
  const run = () => client.post("run?filename=main.py", formOf(tarOf(HELLO)));
  return { test, client, clock, run };
}

verifies("async.in-doubt", "a file whose run is stored though the answer was lost is run", async () => {
  const { client, run } = await unheard();
  const { status, json } = await run();
  expect(status).toBe(200);
  expect(await client.ended(json.runId)).toMatchObject({ status: "success" });
});

verifies(
  "async.in-doubt",
  "one of which nobody knows is told so with its id, and ends without a restart",
  async () => {
    let isAway = true;
    const { test, client, clock, run } = await unheard(
      (store) => (batch) => (isAway ? Promise.reject(lost()) : store.runs.refuse(batch)),
    );
    let answer: Answer | null = null;
    void run().then((told) => (answer = told));
    await until("it is told that nobody knows", () => {
      clock.skip(250);
      return answer !== null;
    });
    const { status, json } = answer as unknown as Answer;
    expect([status, json.code]).toEqual([503, "in_doubt"]);
    const [runId = "none"] = RUN_ID.exec(json.message) ?? [];
    expect(await client.find(runId)).toMatchObject({ status: "running" });
    isAway = false;
    await until("it has ended", async () => {
      clock.skip(250);
      return (await client.find(runId)).status !== "running";
    });
    expect(await client.find(runId)).toMatchObject({ status: "failed", error: { code: "interrupted" } });
    const folders = path.join(test.settings.dataDir, "once");
    expect(existsSync(folders) ? readdirSync(folders) : []).toEqual([]);
  },
);

verifies("run-once.reserve", "within the disk's reserve no file is taken", async () => {
  const test = await testService({}, { diskReserve: "1000TB" });
  const client = new OnceClient(test, "large");
  await client.post("create-run-app");
  const { status, json } = await client.post("run?filename=main.py", formOf(tarOf(HELLO)));
  expect([status, json.code]).toEqual([503, "storage_unavailable"]);
  expect(json.message).toContain("MILLRACE_DISK_RESERVE");
});
