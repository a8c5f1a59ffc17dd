import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { Questions } from "../../../../src/engines/agent/agent-messages.ts";
import { SeatLine } from "../../../../src/engines/agent/seat-line.ts";
import { HandClock } from "../../../support/clocks.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";
import { GRACE_MS, HELLO, type PlayedAgent, playedSeat } from "./played-seat.ts";

type Seat = Awaited<ReturnType<typeof playedSeat>>;

const PROOF = `s-abcdefghijkl ${"ab".repeat(16)}`;
const SEEN = { usage: null, out_of_memory: 0 };
const VITALS = { atMs: 1, isStopped: false, threads: new Map() };

/** Time passes, and the agent gives signs of life: each is answered, because another node has come. */
async function live(seat: Seat, agent: PlayedAgent, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 5_000) {
    seat.others.push(`10.0.0.${passed / 1_000}:4300`);
    const heard = agent.heard.length;
    agent.say({ beat: {} });
    await agent.hears(heard + 1);
    seat.clock.advance(5_000);
  }
}

verifies("seats.back", "one that has come back and gives signs of life stays, however long", async () => {
  const seat = await playedSeat();
  const agent = await seat.sit();
  const { secret } = agent.heard[0].session;
  agent.socket.destroy();
  await seat.clock.sets(GRACE_MS);
  const back = await seat.call(`millrace 1 back ${seat.order.seatId} ${secret} 1`);
  await back.hears(1);
  back.say(HELLO);
  await live(seat, back, 2 * GRACE_MS);
  expect([back.isClosed, seat.ended]).toEqual([false, []]);
});

verifies(
  "seats.taken",
  "one that was not heard for a while is ended only when it is known to be ours",
  async () => {
    const others = await playedSeat();
    await others.sit();
    others.records.taken.add(others.order.seatId);
    // Its connection stands, and its service may have been frozen meanwhile.
    others.clock.advance(5_500);
    others.process.kill();
    await until("it is let go", () => others.placed.lets === 1);
    expect(others.placed.kills).toBe(0);

    const ours = await playedSeat();
    await ours.sit();
    ours.clock.advance(5_500);
    ours.process.kill();
    await until("it is ended", () => ours.placed.kills === 1);
  },
);

verifies(
  "seats.ends",
  "one that is over before its secret was stored leaves nothing in the records",
  async () => {
    const seat = await playedSeat();
    const stored = Promise.withResolvers<void>();
    const add = seat.records.add.bind(seat.records);
    let isStoring = false;
    seat.records.add = async (record) => {
      isStoring = true;
      await stored.promise;
      await add(record);
    };
    const agent = await seat.call(`millrace 1 seat ${seat.order.ticket}`);
    await until("it is being stored", () => isStoring);
    seat.endPlace({ detail: "deleted", initFailure: null });
    await seat.process.exited;
    stored.resolve();
    await agent.closed();
    await until("nobody knows it", () => seat.records.known.size === 0);
    expect(agent.heard).toEqual([]);
    isStoring = false;
    await (await seat.call(`millrace 1 seat ${seat.order.ticket}`)).closed();
    expect(isStoring).toBe(false);
  },
);

test("the ticket of a seat that is over opens nothing", async () => {
  const seat = await playedSeat();
  let isStored = false;
  seat.records.add = async () => void (isStored = true);
  seat.endPlace({ detail: "deleted", initFailure: null });
  await seat.process.exited;
  await (await seat.call(`millrace 1 seat ${seat.order.ticket}`)).closed();
  expect(isStored).toBe(false);
});

test("of agents that wait for a service, each seat has one, and none when the listener closes", async () => {
  const seat = await playedSeat();
  seat.records.found = { kind: "open" };
  const first = await seat.call(`millrace 1 back ${PROOF} 1`);
  await until("it waits", () => first.beats === 1);
  const second = await seat.call(`millrace 1 back ${PROOF} 1`);
  await until("the other waits", () => second.beats === 1);
  await first.closed();
  expect(second.isClosed).toBe(false);
  await seat.listener.close();
  await second.closed();
});

test("no more agents are looked up at once than the database is asked for", async () => {
  const seat = await playedSeat();
  const asked = Promise.withResolvers<void>();
  let count = 0;
  seat.records.find = async () => {
    count += 1;
    await asked.promise;
    return { kind: "nowhere" };
  };
  const agents: PlayedAgent[] = [];
  for (let at = 0; at < 64; at += 1) agents.push(await seat.call(`millrace 1 back ${PROOF} 1`));
  await until("all are looked up", () => count === 64);
  const late = await seat.call(`millrace 1 back ${PROOF} 1`);
  await late.closed();
  asked.resolve();
  for (const agent of agents) await agent.closed();
  expect([count, late.heard, agents[0]?.heard]).toEqual([64, [], [{ fenced: {} }]]);
});

test("an agent is asked so much at once, and what it does not answer is not waited for", async () => {
  const clock = new HandClock();
  const asked: unknown[] = [];
  const looks = new Questions(clock, (question) => asked.push(question) > 0);
  const all = Array.from({ length: 1_001 }, (_, pid) => looks.usage(pid));
  expect([asked.length, await all.at(-1)]).toEqual([1_000, null]);
  looks.giveUp();
  expect(await Promise.all(all)).toEqual(all.map(() => null));
  expect(looks.vitals(7)).toBeNull();
  looks.answer({ id: 1_000, vitals: VITALS, ...SEEN });
  await until("it was seen", () => looks.vitals(7) === VITALS);
  looks.giveUp();
  expect(looks.vitals(7)).toBeNull();
});

test("those who ask about a process while a look is open share its answer", async () => {
  const asked: unknown[] = [];
  const looks = new Questions(new HandClock(), (question) => asked.push(question) > 0);
  const all = Array.from({ length: 100 }, () => looks.usage(7));
  const deaths = looks.memoryDeaths();
  expect(asked).toEqual([{ look: { id: 0, pid: 7 } }, { look: { id: 1, pid: 0 } }]);
  looks.answer({ id: 0, vitals: VITALS, ...SEEN });
  expect(new Set(await Promise.all(all))).toEqual(new Set([SEEN.usage]));
  const more = [looks.memoryDeaths(), looks.usage(7)];
  expect(asked).toHaveLength(4);
  looks.giveUp();
  expect(await Promise.all([deaths, ...more])).toEqual([0, 0, null]);
});

test("a line to one that does not read ends", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const reader = connect((server.address() as AddressInfo).port, "127.0.0.1").pause();
  onTestFinished(() => void reader.destroy());
  const [socket] = (await once(server, "connection")) as [Socket];
  let isOver = false;
  const line = new SeatLine<unknown, { text: string }>(socket, new HandClock(), () => null, {
    onMessage: () => {},
    onFault: () => {},
    onError: () => {},
    onEnded: () => (isOver = true),
  });
  // More than the kernel and the service keep for it.
  for (let count = 0; count < 64; count += 1) line.say({ text: "x".repeat(1024 * 1024) });
  expect(isOver).toBe(true);
});
