import { expect, test } from "vitest";
import type { Lane } from "../../../src/replicas/slots/capacity.ts";
import { type TestCall, testPool, type TestPool } from "../../support/pool.ts";
import { until } from "../../support/until.ts";

const MAIN = `
import os
import time

def fast():
    return 0

def note(text, seconds=0):
    with open("noted", "a") as noted:
        noted.write(text + " ")
    time.sleep(seconds)

def hold(file):
    while not os.path.exists(file):
        time.sleep(0.005)
`;
const ONE = { main: MAIN, toml: "[scaling]\nmax_replicas = 1" };
/** Calls that can be handed ahead, and their own replica's one slot. */
const MOST_IN_HAND = 32;

/** Keeps the only slot busy until that file is there. */
async function holdSlot(pool: TestPool, file: string, lane: Lane = "caller"): Promise<TestCall> {
  const held = pool.submit("hold", { file }, undefined, lane);
  await until("the slot is taken", () => held.call.holder !== null);
  return held;
}

/** Calls that write down their own names, submitted in this order. */
function noteAll(pool: TestPool, lane: Lane, count: number): TestCall[] {
  return Array.from({ length: count }, (_, n) =>
    pool.submit("note", { text: `${lane[0]}${n}` }, undefined, lane),
  );
}

/** Waits for calls; all have to return. */
async function allReturn(calls: readonly TestCall[]): Promise<void> {
  const outcomes = await Promise.all(calls.map(({ ended }) => ended));
  expect(outcomes.filter(({ kind }) => kind !== "returned")).toEqual([]);
}

test("callers go before a backlog that waited longer, which gets every fourth slot", async () => {
  const pool = await testPool(ONE);
  for (const lane of ["caller", "backlog"] as const) {
    const held = await holdSlot(pool, `go-${lane}`, lane);
    const calls = [...noteAll(pool, "backlog", 5), ...noteAll(pool, "caller", 8)];
    expect(pool.pool.slots.waiting).toBe(13);
    pool.leave(`go-${lane}`);
    await allReturn([held, ...calls]);
  }
  const round = "c0 c1 c2 b0 c3 c4 c5 b1 c6 c7 b2 b3 b4 ";
  expect(pool.text("noted")).toBe(round + round);
});

test("with both lanes always full, each gets its share to the end", async () => {
  const pool = await testPool(ONE);
  const held = await holdSlot(pool, "go");
  const calls: TestCall[] = [];
  let begun = 0;
  // Slow enough that none is handed ahead: what is noted is the order of the slots.
  const again = (lane: Lane): void => {
    begun += 1;
    if (begun <= 120)
      calls.push(pool.submit("note", { text: lane, seconds: 0.002 }, () => again(lane), lane));
  };
  for (let n = 0; n < 6; n++) for (const lane of ["backlog", "caller"] as const) again(lane);
  pool.leave("go");
  await held.ended;
  await until("all are submitted", () => begun > 120);
  await allReturn(calls);
  const noted = pool.text("noted").trim().split(" ").slice(0, 100);
  for (let at = 0; at < noted.length; at += 4)
    expect(noted.slice(at, at + 4)).toEqual(["caller", "caller", "caller", "backlog"]);
});

test("a caller waits behind few calls of a fast backlog, in a replica's hands too", async () => {
  const pool = await testPool(ONE);
  for (let n = 0; n < 300; n++) await pool.value("fast", {});
  const [replica] = pool.ready;
  const inHand: number[] = [];
  const passed: number[] = [];
  const callers: TestCall[] = [];
  let done = 0;
  const backlog = Array.from({ length: 2_000 }, () =>
    pool.backlog("fast", {}, () => {
      done += 1;
      inHand.push(replica?.calls.size ?? 0);
      if (done % 200 !== 0 || done > 1_600) return;
      const before = done;
      callers.push(pool.submit("fast", {}, () => passed.push(done - before)));
    }),
  );
  await allReturn(backlog);
  await allReturn(callers);
  expect(Math.max(...inHand)).toBeLessThanOrEqual(MOST_IN_HAND);
  expect(passed).toHaveLength(8);
  // Those in hand when it came, those in hand when it was handed over, and one whose turn it was.
  expect(Math.max(...passed)).toBeLessThanOrEqual(2 * MOST_IN_HAND + 1);
});

test("calls handed ahead behind a slow one come back to their own lanes, in their old places", async () => {
  const pool = await testPool(ONE);
  let rounds = 0;
  let proven = 0;
  let before = "";
  // Calls are handed ahead only while the app is fast, which a busy machine may keep it from being.
  for (; proven < 3 && rounds < 30; rounds++) {
    for (let n = 0; n < 300; n++) await pool.value("fast", {});
    const held = await holdSlot(pool, `go-${rounds}`);
    const calls = [...noteAll(pool, "backlog", 3), ...noteAll(pool, "caller", 5)];
    if (calls.at(-1)?.call.holder) proven += 1;
    await until("all of them wait", () => pool.pool.slots.waiting === calls.length);
    expect(calls.every(({ call }) => call.holder === null)).toBe(true);
    pool.leave(`go-${rounds}`);
    await allReturn([held, ...calls]);
    const noted = pool.text("noted").slice(before.length).trim().split(" ");
    before = pool.text("noted");
    expect(noted.filter((name) => name.startsWith("c"))).toEqual(["c0", "c1", "c2", "c3", "c4"]);
    expect(noted.filter((name) => name.startsWith("b"))).toEqual(["b0", "b1", "b2"]);
    // A turn may be used up by a call that came back: then the first of the backlog goes earlier.
    expect(noted.indexOf("b0")).toBeLessThan(4);
    expect(noted.indexOf("b1")).toBeGreaterThanOrEqual(4);
  }
  expect(rounds).toBeLessThan(30);
  // Nothing that came back is counted twice: with calls this slow there is room for the one slot alone.
  for (let n = 0; n < 4; n++) await pool.value("note", { text: "slow", seconds: 0.2 });
  expect(pool.pool.slots.backlogRoom).toBe(1);
});

test("a backlog starts replicas as callers do", async () => {
  const pool = await testPool({ main: MAIN, toml: "[scaling]\nmax_replicas = 2" });
  const held = Array.from({ length: 3 }, () => pool.backlog("hold", { file: "go" }));
  await until(
    "two are ready, and one call waits",
    () => pool.ready.length === 2 && pool.pool.slots.waiting === 1,
  );
  pool.leave("go");
  await allReturn(held);
});
