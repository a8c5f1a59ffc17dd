import { describe, expect } from "vitest";
import type { Outcome } from "../../../src/model/outcome.ts";
import { dice } from "../../support/dice.ts";
import { returned, sharedPool, type TestPool } from "../../support/pool.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { batchApp, batchSettings, WAYS } from "./batch-apps.ts";
import { StreamCall } from "./stream-call.ts";

const STORM = `
# async
def storm(n, way, ms):
    if "die" in way:
        os._exit(3)
    time.sleep(max(ms) / 1000)
    bad = [each for each, how in zip(n, way) if how == "raise"]
    if bad:
        raise ValueError("bad %s" % bad)
    return [ValueError("item %d" % each) if how == "item" else {1} if how == "not json" else each for each, how in zip(n, way)]

# async
def flow(n, way):
    for step in range(9):
        bad = [each for each, how in zip(n, way) if how == "raise"]
        if bad and step == 0:
            raise ValueError("bad %s" % bad)
        time.sleep(0.0005)
        yield [
            END if step == each % 8 else ValueError("item %d" % each) if how == "item" and step == each % 5 else SKIP if step == 3 else [each, step]
            for each, how in zip(n, way)
        ]
`;

/** How a call of `storm` ended, as far as its arguments decide that. */
function shown(outcome: Outcome): string {
  if (outcome.kind === "returned") return String(returned(outcome));
  return "message" in outcome && outcome.message !== undefined ? outcome.message : outcome.kind;
}

const EXPECTED: Readonly<Record<string, (n: number) => string>> = {
  fine: (n) => String(n),
  raise: (n) => `ValueError: bad [${n}]`,
  item: (n) => `ValueError: item ${n}`,
  "not json": () => "result is of type set, which JSON cannot hold",
  die: () => "died",
};

/** What a call of `flow` gets, and how it ends. */
function flowOf(n: number, way: string): { values: string[]; end: string } {
  if (way === "raise") return { values: [], end: `ValueError: bad [${n}]` };
  const values: string[] = [];
  for (let step = 0; step < n % 8; step++) {
    if (way === "item" && step === n % 5) return { values, end: `ValueError: item ${n}` };
    if (step !== 3) values.push(`json [${n},${step}]`);
  }
  return { values, end: "streamed" };
}

/** So many calls are open at a time. */
const IN_FLIGHT = 60;

/** Makes calls one after the other, some of which are cancelled a moment later; gives what was wrong. */
async function storm(pool: TestPool, calls: number, seed: number, deaths: boolean): Promise<string[]> {
  const roll = dice(seed);
  const wrong: string[] = [];
  let open = 0;
  let cancelled = 0;
  const judge = (what: string, said: string, wanted: string): void => {
    if (said !== wanted) wrong.push(`${what} ended as ${said} in place of ${wanted}`);
  };
  /** After some turns of the event loop: before its batch leaves, while it runs, or when it is over. */
  const cancelSometimes = async ({ call }: Pick<StreamCall, "call">): Promise<void> => {
    if (roll(1) > 0.15) return;
    const kinds = [{ kind: "cancelled" }, { kind: "timed_out", afterMs: 1 }] as const;
    for (let turns = roll(200); turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
    if (call.hasEnded) return;
    cancelled += 1;
    pool.pool.slots.abandon(call, kinds[Math.floor(roll(2))] ?? kinds[0]);
  };
  const callOne = async (n: number): Promise<void> => {
    const luck = roll(1);
    const way =
      luck < 0.02
        ? "raise"
        : luck < 0.05
          ? "item"
          : luck < 0.07
            ? "not json"
            : deaths && luck < 0.075
              ? "die"
              : "fine";
    if (roll(1) < 0.7 || deaths) {
      const made = pool.submit("storm", { n, way, ms: roll(2) });
      const { call, ended } = made;
      void cancelSometimes(made);
      const outcome = await ended;
      if (!call.isCancelled) judge(`call ${n} (${way})`, shown(outcome), EXPECTED[way]?.(n) ?? "");
    } else {
      const stream = new StreamCall(pool, "flow", { n, way }, true);
      void cancelSometimes(stream);
      const outcome = await stream.end();
      const { values, end } = flowOf(n, way === "not json" ? "fine" : way);
      const isOwn = stream.values.every((value, index) => value === values[index]);
      if (!isOwn) wrong.push(`stream ${n} (${way}) got ${stream.values.join()}`);
      if (stream.call.isCancelled) return;
      judge(`stream ${n} (${way})`, `${shown(outcome)} ${stream.values.length}`, `${end} ${values.length}`);
    }
  };
  for (let n = 0; n < calls; n++) {
    open += 1;
    void callOne(n).finally(() => (open -= 1));
    if (open >= IN_FLIGHT) await until("a call has ended", () => open < IN_FLIGHT);
  }
  await until("every call has ended", () => open === 0);
  await until("every slot is free", () => [...pool.pool.replicas].every(({ calls }) => calls.size === 0));
  expect(cancelled).toBeGreaterThan(0);
  expect(pool.faults).toEqual([]);
  return wrong;
}

describe.each(WAYS)("%s", (_, isAsync, more, concurrency) => {
  const app = { main: batchApp(isAsync, STORM + more), toml: batchSettings(concurrency, STORM) };
  const shared = sharedPool(app);

  verifies(
    "batching.own-answer",
    "each of 600 calls gets its own answer, whatever happens beside it",
    async () => {
      expect(await storm(shared(), 600, 39 + concurrency, false)).toEqual([]);
      expect(shared().exits).toEqual([]);
    },
  );

  // Where several calls run at a time, one that ends its process also ends calls that run alone beside it.
  if (concurrency > 1) return;
  verifies("batching.own-answer", "and so do those beside calls that end their process", async () => {
    expect(await storm(shared(), 400, 40, true)).toEqual([]);
  });
});
