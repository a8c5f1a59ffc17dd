import { expect } from "vitest";
import type { Store } from "../../../src/store/store.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { ended, ledger, letGo, look, recordOf, Site, submit } from "./site.ts";

const MAIN = `
import os
import time
import millrace

def note(line):
    with open("ledger", "a") as ledger:
        ledger.write(line + "\\n")

def run():
    yield 1
    millrace.checkpoint("first")
    note("first")
    while not os.path.exists("go"):
        time.sleep(0.005)
    yield 2
    millrace.checkpoint("second")
    note("second")
    yield 3

def taken():
    if millrace.run.checkpoint is None:
        millrace.checkpoint(0)
    for n in range(millrace.run.sent + 1, 4):
        yield n
        note("%d of attempt %d" % (n, millrace.run.attempt))
        while not os.path.exists("go"):
            time.sleep(0.005)
    note("end of attempt %d" % millrace.run.attempt)

def wake():
    return 1
`;

/** Comes between the service and its store. */
class Outage {
  isAway = false;
  refused = 0;
  readonly aroundStore = (store: Store): Store => ({
    ...store,
    checkpoints: {
      ...store.checkpoints,
      write: async (batch) => {
        if (!this.isAway) return await store.checkpoints.write(batch);
        this.refused += 1;
        throw new Error("the storage is away");
      },
    },
  });
}

verifies(
  ["checkpoint.waits", "checkpoint.stored-first"],
  "while the storage is away a checkpoint waits, and no reader gets a chunk that is not stored",
  async () => {
    const outage = new Outage();
    const site = new Site({ app: { main: MAIN, toml: "[scaling]\nmax_replicas = 1\n" } });
    const on = await site.start({ flags: WITHOUT_WALLS, aroundStore: outage.aroundStore });
    const id = await submit(on, "app");
    await until("the first is stored", () => ledger(on, "app").length === 1);
    outage.isAway = true;
    letGo(on, "app");
    await until("it was tried twice", () => outage.refused >= 2);
    expect(ledger(on, "app")).toEqual(["first"]);
    const { status, checkpoint } = await recordOf(on, "app", id);
    expect([status, checkpoint?.sent]).toEqual(["running", 1]);
    const transcript = on.service.store.transcripts;
    const key = { appNumber: on.apps.get("app")!.app.number, id };
    expect(await transcript.last(key)).toBe(1);
    outage.isAway = false;
    const run = await ended(on, "app", id);
    expect(run).toMatchObject({ status: "success", attempt: 1, result: [1, 2, 3] });
    expect(ledger(on, "app")).toEqual(["first", "second"]);
    const { text } = await look(on, "app", id, "/events", { "last-event-id": "1" });
    expect(text).toMatch(/^id: 2\ndata: 2\n\nid: 3\ndata: 3\n\nevent: end\n/);
  },
);

verifies(
  ["checkpoint.fenced", "checkpoint.exactly-once"],
  "an attempt whose run was taken away adds nothing; the next one continues after what readers have",
  async () => {
    const site = new Site({ app: { main: MAIN, toml: "[scaling]\nmax_replicas = 1\n" } });
    const on = await site.start({ flags: WITHOUT_WALLS });
    const { store } = on.service;
    const id = await submit(on, "app", {}, { functionName: "taken" });
    const key = { appNumber: on.apps.get("app")!.app.number, id };
    await until("the first chunk is stored", async () => (await store.transcripts.last(key)) === 1);
    const reading = look(on, "app", id, "/events");
    // As another service would, which took this one for dead.
    const owner = (await store.runs.owner(key))!;
    await store.claims.release([{ ...key, owner, fence: 1, isInterruption: true, attempt: 2 }]);
    // It wakes the queue, once its turn has come after what is left of the first attempt, which holds the only slot yet.
    const other = await submit(on, "app", {}, { functionName: "wake" });
    letGo(on, "app");
    await ended(on, "app", other);
    const run = await ended(on, "app", id);
    expect(run).toMatchObject({ status: "success", attempt: 2, result: [1, 2, 3] });
    const events = (await reading).text.replaceAll(/event: queue\n.*\n\n/g, "");
    expect(events).toMatch(/^id: 1\ndata: 1\n\nid: 2\ndata: 2\n\nid: 3\ndata: 3\n\nevent: end\n/);
    expect(ledger(on, "app")).toContain("end of attempt 2");
    expect(ledger(on, "app")).not.toContain("1 of attempt 2");
  },
);
