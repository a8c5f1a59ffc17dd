import { expect } from "vitest";
import { openStream } from "./stream-reader.ts";
import type { TestApp, TestService } from "./service.ts";

const MAIN = `
import os, time
import millrace
from millrace import END, SKIP

def double(n: list[int], way: list[str] = "fine"):
    time.sleep(0.02)
    bad = [each for each, how in zip(n, way) if how == "raise"]
    if bad:
        raise ValueError("bad %s" % bad)
    return [ValueError("item %d" % each) if how == "item" else [each * 2, len(n)] for each, how in zip(n, way)]

def count(n: list[int]):
    for step in range(max(n) + 1):
        yield [END if step >= each else SKIP if step == 1 else step for each in n]

class Steps:
    capacity = 4

    def __init__(self):
        self.left = {}

    def add(self, id, n: int):
        self.left[id] = list(range(n))

    def remove(self, id):
        self.left.pop(id, None)

    def step(self, paused):
        made = {}
        for id, left in list(self.left.items()):
            made[id] = left.pop(0) if left else END
            if made[id] is END:
                del self.left[id]
        return made

def who():
    return [millrace.run.id, millrace.run.attempt]
`;

/** An app with a batched function, a batched generator and a stepper, for `expectBatches`. */
export const BATCHED: Required<Pick<TestApp, "main" | "toml">> = {
  main: MAIN,
  toml: '[hardware]\ncpu = 0.5\nmemory = 0.2\n[scaling]\nmax_replicas = 1\n[batching.double]\n[batching.count]\n[batching.step]\nstepper = "Steps"\n',
};

/** At the same time. */
const CALLS = 24;

/** Calls that app until some of its calls have shared a batch; each must get its own answer. */
export async function expectBatches(on: TestService, app: string): Promise<void> {
  const who = await on.call(app, {}, { functionName: "who" });
  expect(who.json.result).toEqual([who.headers.get("x-request-id"), 1]);

  for (let largest = 0; largest < 2;) largest = await largestBatch(on, app);

  const streams = Array.from({ length: CALLS }, async (_, n) => {
    for (const functionName of ["count", "step"]) {
      const stream = await openStream(on, app, { n }, { functionName }).ended();
      const skipped = functionName === "count" ? 1 : -1;
      const values = Array.from({ length: n }, (_, step) => step).filter((step) => step !== skipped);
      expect([stream.isWhole, stream.messages.map(({ data }) => Number(data))]).toEqual([true, values]);
    }
  });
  await Promise.all(streams);
}

/** How many of some calls at the same time have shared a batch. */
async function largestBatch(on: TestService, app: string): Promise<number> {
  const calls = Array.from({ length: CALLS }, async (_, n) => {
    const way = n === 5 ? "raise" : n === 7 ? "item" : "fine";
    const { status, json } = await on.call(app, { n, way }, { functionName: "double" });
    if (way === "fine") expect([status, json.result]).toEqual([200, [n * 2, expect.any(Number)]]);
    else expect([status, json.message]).toEqual([500, expect.stringContaining(wrong(n, way))]);
    return way === "fine" ? (json.result[1] as number) : 0;
  });
  return Math.max(...(await Promise.all(calls)));
}

function wrong(n: number, way: string): string {
  return way === "raise" ? `bad [${n}]` : `item ${n}`;
}
