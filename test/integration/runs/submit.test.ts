import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { AppError } from "../../../src/model/errors.ts";
import type { Chunk } from "../../../src/replicas/call.ts";
import type { RunReader } from "../../../src/runs/live-run.ts";
import type { Store } from "../../../src/store/store.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { CLOCK, partsByHand } from "./by-hand.ts";

const byHand = partsByHand();

/** A store whose accepts wait for a word, and may be refused. */
class Gate {
  asked = 0;
  #open = Promise.withResolvers<void>();
  readonly around = (store: Store): Store => ({
    ...store,
    runs: {
      ...store.runs,
      accept: async (batch) => {
        this.asked += 1;
        await this.#open.promise;
        await store.runs.accept(batch);
      },
    },
  });

  open(): void {
    this.#open.resolve();
  }

  refuse(): void {
    this.#open.reject(new AppError("storage_unavailable"));
  }
}

const lost = () => new AppError("in_doubt", {}, new Error("Connection terminated unexpectedly"));

/** Writes down what it is told. */
class Notes implements RunReader {
  readonly lines: string[] = [];

  onStream(): void {
    this.lines.push("stream");
  }

  onChunk({ bytes }: Chunk): void {
    this.lines.push(String(bytes));
  }

  onEnd({ outcome }: { outcome: { kind: string } }): void {
    this.lines.push(outcome.kind);
  }
}

const chunk = (text: string): Chunk => ({ isText: true, bytes: Buffer.from(text), wireBytes: 10 });

test("a run that finds room never passes by one that is on its way into the store", async () => {
  const gate = new Gate();
  const parts = byHand(gate.around);
  const { submitter, pool } = parts;
  pool.room = 0;
  const first = submitter.submit(parts.request("first"));
  pool.room = 5;
  const second = submitter.submit(parts.request("second"));
  gate.open();
  await Promise.all([first, second]);
  await until("both came", () => pool.calls.length === 2);
  expect(pool.came).toEqual(["first", "second"]);
});

test("a place whose run could not be stored is free again", async () => {
  let isBroken = true;
  const parts = byHand((store) => ({
    ...store,
    runs: {
      ...store.runs,
      accept: async (batch) => {
        if (isBroken) throw new AppError("storage_unavailable");
        await store.runs.accept(batch);
      },
    },
  }));
  const { submitter, pool } = parts;
  for (const room of [1, 0]) {
    pool.room = room;
    await expect(submitter.submit(parts.request("lost"))).rejects.toMatchObject({
      code: "storage_unavailable",
    });
  }
  isBroken = false;
  pool.room = 1;
  await submitter.submit(parts.request("kept"));
  await until("it came", () => pool.calls.length === 1);
  expect(pool.came).toEqual(["kept"]);
});

for (const [title, isAdopted] of [
  ["taken over", true],
  ["left to its caller", false],
] as const) {
  test(`what a run does while it is being ${title} is told once, to whom it belongs then`, async () => {
    const gate = new Gate();
    const parts = byHand(gate.around);
    const { submitter, executor, pool } = parts;
    const notes = new Notes();
    const run = executor.execute(parts.request("{}"), notes);
    const adopting = submitter.adopt(run, notes);
    await until("the store is asked", () => gate.asked === 1);
    run.onStream();
    run.onChunk(chunk("a"));
    run.onChunk(chunk("b"));
    pool.finish({ kind: "streamed", runMs: 1 });
    expect(notes.lines).toEqual([]);
    if (isAdopted) gate.open();
    else gate.refuse();
    expect(await adopting).toBe(isAdopted);
    expect(notes.lines).toEqual(isAdopted ? [] : ["stream", "a", "b", "streamed"]);
    const stored = async () => await parts.find(run.request.id);
    await until("its end is stored", async () => (await stored())?.state === "success");
    expect((await stored())?.isAsync).toBe(isAdopted);
  });
}

verifies(
  "async.adopted",
  "a call that becomes async is answered when its run ends, though nobody knows whether it is stored",
  async () => {
    let isAway = true;
    const parts = byHand((store) => ({
      ...store,
      runs: {
        ...store.runs,
        accept: async (batch) => {
          if (isAway) throw lost();
          await store.runs.accept(batch);
        },
        refuse: async (batch) => {
          if (isAway) throw lost();
          return await store.runs.refuse(batch);
        },
      },
    }));
    const { submitter, executor, pool, recorder } = parts;
    const notes = new Notes();
    const run = executor.execute(parts.request("{}"), notes);
    const adopting = submitter.adopt(run, notes);
    // Longer than anybody may have to wait.
    for (let i = 0; i < 20; i++) {
      CLOCK.skip(250);
      await setImmediate();
    }
    pool.finish();
    expect(notes.lines).toEqual(["returned"]);
    expect(await adopting).toBe(false);
    isAway = false;
    await until("its end is stored", async () => {
      CLOCK.skip(250);
      return (await parts.find(run.request.id))?.state === "success";
    });
    await recorder.settle();
    expect([executor.find(run.request.id), [...executor.claimed()]]).toEqual([undefined, []]);
  },
);

verifies(
  "async.adopted",
  "one whose commit was lost is stored again, and its record tells how it ended",
  async () => {
    let losses = 0;
    const parts = byHand((store) => ({
      ...store,
      runs: {
        ...store.runs,
        accept: async (batch) => {
          if (losses++ === 0) throw lost();
          await store.runs.accept(batch);
        },
      },
    }));
    const { submitter, executor, pool, recorder } = parts;
    const notes = new Notes();
    const run = executor.execute(parts.request("{}"), notes);
    const isAdopted = await submitter.adopt(run, notes);
    pool.finish();
    await recorder.settle();
    await until("it is written down", () => executor.find(run.request.id) === undefined);
    expect([isAdopted, notes.lines]).toEqual([true, []]);
    expect(await parts.find(run.request.id)).toMatchObject({ state: "success", statusCode: 200 });
  },
);
