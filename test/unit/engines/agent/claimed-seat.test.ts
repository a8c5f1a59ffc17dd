import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { ClaimedSeat } from "../../../../src/engines/agent/seat-records.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";
import { GRACE_MS, HELLO, playedSeat } from "./played-seat.ts";

const SECRET = "ab".repeat(16);
const ID = "s-abcdefghijkl";
const LEFT: ClaimedSeat = {
  id: ID,
  secretHash: createHash("sha256").update(SECRET).digest(),
  fence: 3,
  placeName: "pod-0",
};
const STARTED = [HELLO, { fetched: { ms: 10 } }, { started: { ms: 20, walls: null } }];
const EXITED = { exited: { code: 3, is_out_of_memory: false } };
const BACK = `millrace 1 back ${ID} ${SECRET}`;

describe("a seat that was claimed", () => {
  verifies("seats.adopted", "its agent comes with an older fence, and is told the new one", async () => {
    const seat = await playedSeat({}, Promise.resolve(LEFT));
    seat.records.found = { kind: "open" };
    const agent = await seat.call(`${BACK} 1`);
    await agent.hears(1);
    const { secret, fence } = agent.heard[0].session;
    expect([secret, fence, seat.placed.adopted]).toEqual([SECRET, 3, [{ seatId: ID, placeName: "pod-0" }]]);
    agent.say(...STARTED, { adopted: {} }, EXITED);
    expect((await seat.process.exited).detail).toBe("exit code 3");
    // None was begun in its place.
    expect(seat.placed.orders).toEqual([]);
    await until("its place is ended", () => seat.placed.kills === 1);
  });

  verifies("seats.adopted", "an agent that waits is taken as soon as its seat is claimed", async () => {
    const { promise, resolve } = Promise.withResolvers<ClaimedSeat | null>();
    const seat = await playedSeat({}, promise);
    seat.records.found = { kind: "open" };
    const agent = await seat.call(`${BACK} 2`);
    await until("it hears that it is not forgotten", () => agent.beats === 1);
    seat.clock.advance(2_000);
    await until("it hears that again", () => agent.beats === 2);
    resolve(LEFT);
    await agent.hears(1);
    expect(agent.heard[0].session.fence).toBe(3);
  });

  test("an agent that waits is told when another node has its seat", async () => {
    const seat = await playedSeat();
    seat.records.found = { kind: "open" };
    const agent = await seat.call(`${BACK} 2`);
    await until("it waits", () => agent.beats === 1);
    seat.records.found = { kind: "elsewhere", address: "10.0.0.7:4300" };
    seat.clock.advance(2_000);
    await agent.hears(1);
    expect(agent.heard).toEqual([{ elsewhere: { address: "10.0.0.7:4300" } }]);
    await agent.closed();
  });

  test("it does not come: another is begun, and its place is left alone", async () => {
    const seat = await playedSeat({}, Promise.resolve(LEFT));
    await until("it is claimed", () => seat.placed.adopted.length === 1);
    seat.clock.advance(8_000);
    await until("another is begun", () => seat.placed.orders.length === 1);
    await until("it is let go", () => seat.placed.lets === 1);
    expect([seat.placed.kills, seat.ended]).toEqual([0, []]);
    const late = await seat.call(`${BACK} 3`);
    await late.closed();
    expect(late.heard).toEqual([{ fenced: {} }]);
  });

  test.each([
    ["it is over", [...STARTED, EXITED]],
    ["it cannot go on", [HELLO, { failed: { message: "its seat cannot be taken over" } }]],
    ["it breaks the protocol", [HELLO, HELLO]],
  ])("%s: another is begun", async (_, said) => {
    const seat = await playedSeat({}, Promise.resolve(LEFT));
    await until("it is claimed", () => seat.placed.adopted.length === 1);
    const agent = await seat.call(`${BACK} 2`);
    await agent.hears(1);
    agent.say(...said);
    await until("another is begun", () => seat.placed.orders.length === 1);
    await until("the place of the first is ended", () => seat.placed.kills === 1);
    expect(seat.placed.orders[0]?.seatId).not.toBe(ID);
    expect(seat.ended).toEqual([]);
  });

  test("a claim that fails costs nothing", async () => {
    const broken = Promise.reject<null>(new Error("the database does not answer"));
    broken.catch(() => {});
    const seat = await playedSeat({}, broken);
    await until("one is begun", () => seat.placed.orders.length === 1);
    expect(seat.errors).toHaveLength(1);
  });

  test("killed while it is looked for, nothing is begun", async () => {
    const { promise, resolve } = Promise.withResolvers<ClaimedSeat | null>();
    const seat = await playedSeat({}, promise);
    seat.process.kill();
    resolve(null);
    expect((await seat.process.exited).detail).toBe("stopped before it started");
    expect(seat.placed.orders).toEqual([]);
  });
});

verifies("seats.adopted", "only what is exactly the same is wished for", async () => {
  const marks = await Promise.all(
    [{}, {}, { variables: { KEY: "other" } }, { concurrency: 2 }, { bundle: "bundles/elsewhere" }].map(
      async (changes) => {
        const seat = await playedSeat(changes, Promise.resolve(null));
        await until("it is wished for", () => seat.records.wishes.length === 1);
        return seat.records.wishes[0]?.workload.toString("hex");
      },
    ),
  );
  const [one, same, otherVariables, otherConcurrency, otherFolder] = marks;
  expect([same, otherFolder]).toEqual([one, one]);
  expect(new Set([one, otherVariables, otherConcurrency]).size).toBe(3);
  // A replica ends with its service.
  const single = await playedSeat({ mayFork: false }, Promise.resolve(LEFT));
  expect([single.records.wishes, single.placed.orders.length]).toEqual([[], 1]);
});

verifies("seats.taken", "what another service has taken over is let go, and not ended", async () => {
  const seat = await playedSeat();
  const agent = await seat.sit();
  const { secret } = agent.heard[0].session;
  const { seatId } = seat.order;
  agent.socket.destroy();
  await agent.closed();
  seat.records.taken.add(seatId);
  // It shows the fence that the other one gave it.
  seat.records.found = { kind: "elsewhere", address: "10.0.0.7:4300" };
  const back = await seat.call(`millrace 1 back ${seatId} ${secret} 2`);
  await back.hears(1);
  expect(back.heard).toEqual([{ elsewhere: { address: "10.0.0.7:4300" } }]);
  await until("it is given up", () => {
    seat.clock.advance(GRACE_MS);
    return seat.ended.length === 1;
  });
  await until("it is let go", () => seat.placed.lets === 1);
  expect(seat.placed.kills).toBe(0);
});

verifies("seats.taken", "nor is one ended while nobody can tell whose it is", async () => {
  const seat = await playedSeat();
  const agent = await seat.sit();
  agent.socket.destroy();
  await agent.closed();
  seat.records.isBroken = true;
  await until("it is let go", () => {
    seat.clock.advance(GRACE_MS);
    return seat.placed.lets === 1;
  });
  expect([seat.placed.kills, seat.ended.length]).toEqual([0, 1]);
});

verifies(
  "seats.memory",
  "a fork that memory ran out for is told also where seats are looked for",
  async () => {
    const seat = await playedSeat({}, Promise.resolve(LEFT));
    await until("it is claimed", () => seat.placed.adopted.length === 1);
    const agent = await seat.call(`${BACK} 2`);
    await agent.hears(1);
    agent.say(...STARTED, { adopted: {} });
    await until("it has started", () => seat.process.obstacle?.() === null);
    const explained = seat.process.explain?.({ detail: "killed by SIGKILL", initFailure: null });
    await agent.hears(2);
    const { id } = agent.heard[1].look;
    agent.say({ seen: { id, usage: null, vitals: null, out_of_memory: 1 } });
    expect(await explained).toMatchObject({ isOutOfMemory: true });
  },
);
