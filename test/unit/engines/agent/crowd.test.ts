import { once } from "node:events";
import { connect as connectPlain, type Socket } from "node:net";
import { connect, type TLSSocket } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";
import { BUNDLE, HELLO, PlayedAgent, playedSeat } from "./played-seat.ts";

const FETCHED = { fetched: { ms: 10 } };
const STARTED = { started: { ms: 20, walls: null } };
/** More than are kept waiting. */
const MANY = 300;

type Seat = Awaited<ReturnType<typeof playedSeat>>;

function closeLater<S extends Socket>(socket: S): S {
  socket.on("error", () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** Begins a handshake with the listener from an address of this machine. */
function greet({ listener, order }: Seat, localAddress: string): TLSSocket {
  const socket = connectPlain({ port: listener.port, host: "127.0.0.1", localAddress });
  const servername = "home.seats.millrace.internal";
  return closeLater(connect({ socket: closeLater(socket), ca: order.authority, servername }));
}

/** Reaches the listener by TLS, and says nothing. */
async function reach(seat: Seat, localAddress: string): Promise<TLSSocket> {
  const secure = greet(seat, localAddress);
  await once(secure, "secureConnect");
  return secure;
}

/** Whether the listener closes a connection before its handshake. */
async function isTurnedAway(seat: Seat, localAddress: string): Promise<boolean> {
  const secure = greet(seat, localAddress);
  return await new Promise((resolve) => {
    secure.once("secureConnect", () => resolve(false));
    secure.once("close", () => resolve(true));
  });
}

/** Connects to the listener from the other address. */
async function knock({ listener }: Seat): Promise<Socket> {
  const place = { port: listener.port, host: "127.0.0.1", localAddress: "127.0.0.2" };
  const socket = closeLater(connectPlain(place));
  await once(socket, "connect");
  return socket;
}

verifies("seats.crowd", "who is silent after the handshake, however often, keeps no agent out", async () => {
  const seat = await playedSeat();
  const slow = new PlayedAgent(await reach(seat, "127.0.0.1"));
  for (let count = 0; count < MANY; count += 1) await reach(seat, "127.0.0.2");
  await until("all of them are met", () => seat.home.strangerCount === 256);
  slow.say(`millrace 1 seat ${seat.order.ticket}\n`);
  await slow.hears(1);
  expect(slow.heard[0]).toHaveProperty("session");
});

verifies("seats.crowd", "one address has so many, but for replicas; others have theirs", async () => {
  const seat = await playedSeat();
  for (let count = 1; count < 2_000; count += 1) (await knock(seat)).destroy();
  // Tickets that are good once do not count.
  const taken: Socket[] = [];
  for (let count = 1; count <= 3; count += 1) {
    const ticket = seat.home.expect((_, socket) => taken.push(closeLater(socket)));
    (await reach(seat, "127.0.0.2")).write(`millrace 1 wire ${ticket}\n`);
    await until("it is taken", () => taken.length === count);
  }
  (await knock(seat)).destroy();
  expect(await isTurnedAway(seat, "127.0.0.2")).toBe(true);
  const agent = new PlayedAgent(await reach(seat, "127.0.0.1"));
  agent.say(`millrace 1 seat ${seat.order.ticket}\n`);
  await agent.hears(1);
  seat.clock.advance(10);
  await reach(seat, "127.0.0.2");
});

verifies("seats.ticket", "a ticket whose secret never arrived is good again, and then no more", async () => {
  const seat = await playedSeat();
  const stored = Promise.withResolvers<void>();
  const add = seat.records.add.bind(seat.records);
  let count = 0;
  seat.records.add = async (record) => {
    count += 1;
    await stored.promise;
    await add(record);
  };
  const line = `millrace 1 seat ${seat.order.ticket}`;
  const first = await seat.call(line);
  await until("it is being stored", () => count === 1);
  // It is good for one at a time.
  await (await seat.call(line)).closed();
  first.socket.destroy();
  stored.resolve();
  let agent = first;
  await until("it is let in", async () => {
    agent = await seat.call(line);
    await until("it is answered", () => agent.isClosed || agent.heard.length > 0);
    return agent.heard.length > 0;
  });
  agent.say(HELLO);
  await until("it is heard", () => seat.process.obstacle?.() === "its files have not been fetched");
  agent.say(FETCHED, STARTED);
  await until("it has started", () => seat.process.obstacle?.() === null);
  agent.socket.destroy();
  await (await seat.call(line)).closed();
  const { secret } = agent.heard[0].session;
  const back = await seat.call(`millrace 1 back ${seat.order.seatId} ${secret} 1`);
  await back.hears(1);
  expect(seat.ended).toEqual([]);
});

verifies("seats.order", "amounts that no machine has, and lines without end, end the seat", async () => {
  const usage = { cpu_ms: 1e300, resident_bytes: 1 };
  const line = { printed: { stream: "stdout", text: "x".repeat(60_000) } };
  for (const [messages, fault] of [
    [[{ seen: { id: 0, usage, vitals: null, out_of_memory: 0 } }], "a message that no agent sends"],
    [Array.from({ length: 18 }, () => line), "more printed lines than an agent passes on"],
  ] as const) {
    const seat = await playedSeat();
    (await seat.sit()).say(HELLO, FETCHED, STARTED, ...messages);
    expect(await seat.process.exited).toMatchObject({ fault });
  }
});

test("a seat fetches two blobs at once, and no third", async () => {
  const seat = await playedSeat();
  const agent = await seat.sit();
  const { secret } = agent.heard[0].session;
  const fetch = async () => await seat.call(`millrace 1 blob ${seat.order.seatId} ${secret} ${BUNDLE}`);
  const opened = Promise.withResolvers<void>();
  let count = 0;
  seat.blobs.open = async function* (): AsyncGenerator<Buffer, void, void> {
    count += 1;
    await opened.promise;
    yield Buffer.from("no archive");
  };
  const two = [await fetch(), await fetch()];
  await until("both are read", () => count === 2);
  await (await fetch()).closed();
  expect([count, two.map(({ isClosed }) => isClosed)]).toEqual([2, [false, false]]);
  opened.resolve();
  for (const each of two) await each.closed();
  await until("there is room again", async () => {
    await fetch();
    return count > 2;
  });
});

verifies("seats.left", "a service that stops does not wait for what an agent fetches", async () => {
  const seat = await playedSeat();
  const agent = await seat.sit();
  const { secret } = agent.heard[0].session;
  const opened = Promise.withResolvers<void>();
  const gone = Promise.withResolvers<void>();
  seat.blobs.open = async function* (): AsyncGenerator<Buffer, void, void> {
    opened.resolve();
    await gone.promise;
    yield Buffer.from("too late");
  };
  const way = await seat.call(`millrace 1 blob ${seat.order.seatId} ${secret} ${BUNDLE}`);
  await opened.promise;
  agent.socket.destroy();
  await seat.listener.close();
  await way.closed();
  gone.resolve();
});
