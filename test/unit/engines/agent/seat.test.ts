import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { SEAT_MOVES } from "../../../../src/engines/agent/seat-messages.ts";
import { SESSION_MOVES } from "../../../../src/engines/agent/session.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";
import { BUNDLE, GRACE_MS, HELLO, playedSeat } from "./played-seat.ts";

const KILLED = { detail: "killed by SIGKILL", initFailure: null };
const FETCHED = { fetched: { ms: 10 } };
const STARTED = { started: { ms: 20, walls: null } };
const EXITED = { exited: { code: 3, is_out_of_memory: false } };

describe("a session", () => {
  verifies(
    "seats.session",
    "the ticket buys a secret, whose hash was stored before it was told",
    async () => {
      const seat = await playedSeat();
      const agent = await seat.sit();
      const { secret, fence, grace_ms, sit } = agent.heard[0].session;
      const record = seat.records.known.get(seat.order.seatId);
      expect(record).toMatchObject({ appNumber: 7, placeName: "seat-1", fence: 1 });
      expect(record?.secretHash).toEqual(createHash("sha256").update(secret).digest());
      expect([fence, grace_ms, sit.bundle, sit.variables]).toEqual([1, GRACE_MS, BUNDLE, { KEY: "value" }]);
      const again = await seat.call(`millrace 1 seat ${seat.order.ticket}`);
      await again.closed();
      expect(again.heard).toEqual([]);
    },
  );

  test("a ticket is still good when the database could not store what it buys", async () => {
    const seat = await playedSeat();
    seat.records.isBroken = true;
    await (await seat.call(`millrace 1 seat ${seat.order.ticket}`)).closed();
    expect(seat.errors).toHaveLength(1);
    seat.records.isBroken = false;
    await until("it is let in", async () => {
      const agent = await seat.call(`millrace 1 seat ${seat.order.ticket}`);
      await until("it is answered", () => agent.isClosed || agent.heard.length > 0);
      return agent.heard.length > 0;
    });
  });

  verifies(
    "seats.back",
    "an agent that was lost comes back with its secret, and its seat goes on",
    async () => {
      const seat = await playedSeat();
      const agent = await seat.sit();
      agent.say(HELLO, FETCHED, STARTED);
      const { secret } = agent.heard[0].session;
      agent.socket.destroy();
      await agent.closed();
      const back = await seat.call(`millrace 1 back ${seat.order.seatId} ${secret} 1`);
      await back.hears(1);
      expect(back.heard[0].session.secret).toBe(secret);
      back.say(HELLO, FETCHED, STARTED);
      expect(seat.ended).toEqual([]);
      back.say(EXITED);
      expect((await seat.process.exited).detail).toBe("exit code 3");
      await until("nobody knows it", () => seat.records.known.size === 0);
      expect(seat.placed.kills).toBe(1);
    },
  );

  verifies(
    "seats.fenced",
    "who comes back too late, or with another secret or fence, is told to end",
    async () => {
      const seat = await playedSeat();
      const agent = await seat.sit();
      const { secret } = agent.heard[0].session;
      const { seatId } = seat.order;
      const answers = async (line: string): Promise<unknown[]> => {
        const other = await seat.call(line);
        await other.closed();
        return other.heard;
      };
      expect(await answers(`millrace 1 back ${seatId} ${"0".repeat(32)} 1`)).toEqual([{ fenced: {} }]);
      expect(await answers(`millrace 1 back ${seatId} ${secret} 2`)).toEqual([{ fenced: {} }]);
      seat.records.found = { kind: "elsewhere", address: "10.0.0.7:4300" };
      expect(await answers(`millrace 1 back s-aaaaaaaaaaaa ${secret} 1`)).toEqual([
        { elsewhere: { address: "10.0.0.7:4300" } },
      ]);
      seat.records.found = { kind: "nowhere" };
      agent.socket.destroy();
      await until("the loss is noticed", () => {
        seat.clock.advance(GRACE_MS);
        return seat.ended.length === 1;
      });
      expect(seat.ended[0]?.detail).toContain("was lost");
      expect(await answers(`millrace 1 back ${seatId} ${secret} 1`)).toEqual([{ fenced: {} }]);
      // Without the database nobody can know, and nobody is told to end.
      seat.records.isBroken = true;
      expect(await answers(`millrace 1 back ${seatId} ${secret} 1`)).toEqual([]);
    },
  );
});

describe("what an agent says", () => {
  verifies("seats.order", "what comes out of turn, too long or of another kind ends the seat", async () => {
    const cases: [readonly (object | string)[], string][] = [
      [[FETCHED], '"fetched" out of turn'],
      [[HELLO, HELLO], '"hello" out of turn'],
      [[HELLO, STARTED], '"started" out of turn'],
      [[HELLO, FETCHED, STARTED, FETCHED], '"fetched" out of turn'],
      [[HELLO, { printed: { stream: "stderr", text: "early" } }], '"printed" out of turn'],
      [["no json\n"], "a line that is not JSON"],
      [[HELLO, FETCHED, { at: { id: 1, is: false } }], '"at" out of turn'],
      [[HELLO, { beat: {}, more: 1 }], "a message that no agent sends"],
      [[HELLO, { exited: { code: 256, is_out_of_memory: false } }], "a message that no agent sends"],
      [[HELLO, { seen: { id: 1, usage: null } }], "a message that no agent sends"],
      [["x".repeat(70_000)], "a line of more than 65536 bytes"],
    ];
    for (const [messages, fault] of cases) {
      const seat = await playedSeat();
      (await seat.sit()).say(...messages);
      expect(await seat.process.exited).toMatchObject({
        detail: `its agent broke the protocol: ${fault}`,
        fault,
      });
      expect(seat.placed.kills).toBe(1);
    }
  });

  test("every phase but the first takes a beat, and none leads back", () => {
    for (const [phase, words] of Object.entries(SEAT_MOVES)) {
      const isFirst = phase === "greeting" || phase === "hired";
      expect("beat" in words).toBe(!isFirst);
      expect(Object.values(words)).not.toContain("greeting");
      expect(Object.values(words)).not.toContain("hired");
    }
  });

  verifies("seats.python", "packages of another Python are refused in words", async () => {
    const other = "3.12 cpython-312-x86_64-linux-gnu glibc 2.36";
    const seat = await playedSeat({
      version: {
        id: "v",
        appNumber: 1,
        bundleBlob: BUNDLE,
        environmentBlob: BUNDLE,
        environmentTag: other,
      },
    });
    (await seat.sit()).say(HELLO);
    expect((await seat.process.exited).initFailure?.message).toBe(
      `The app cannot start: its packages are for ${other}, and there has ${HELLO.hello.tag}.`,
    );
    const wish = await playedSeat({ python: { version: "3.12", isStrict: false } });
    (await wish.sit()).say(HELLO);
    expect((await wish.process.exited).initFailure?.message).toContain("it asks for Python 3.12");
  });

  test("what a harness prints before it calls home, and what is asked of a process", async () => {
    const seat = await playedSeat();
    const agent = await seat.sit();
    agent.say(HELLO, FETCHED, STARTED, { printed: { stream: "stderr", text: "Fatal Python error" } });
    await until("it is told", () => seat.lines.length === 1);
    expect(seat.lines[0]).toEqual({ stream: "stderr", text: "Fatal Python error", runId: null });
    const usage = seat.process.usage(4711);
    await agent.hears(2);
    expect(agent.heard[1]).toEqual({ look: { id: 0, pid: 4711 } });
    const vitals = { at_ms: 5, is_stopped: false, threads: [[4711, 30, true]] };
    agent.say({ seen: { id: 0, usage: { cpu_ms: 12, resident_bytes: 34 }, vitals, out_of_memory: 0 } });
    expect(await usage).toEqual({ cpuMs: 12, residentBytes: 34 });
    expect(seat.process.vitals(4711)).toBeNull();
    await agent.hears(3);
    agent.say({ seen: { id: 1, usage: null, vitals, out_of_memory: 0 } });
    await until("it has been seen", () => seat.process.vitals(4711) !== null);
    expect(seat.process.vitals(4711)?.threads.get(4711)).toEqual({ usedMs: 30, isRunnable: true });
  });
});

verifies("seats.memory", "a fork that memory ran out for is told from one that was killed", async () => {
  const seat = await playedSeat();
  const agent = await seat.sit();
  agent.say(HELLO, FETCHED, STARTED);
  await until("it has started", () => seat.process.obstacle?.() === null);
  let heard = 1;
  const explained = async (deaths: number): Promise<unknown> => {
    const explanation = seat.process.explain?.(KILLED);
    heard += 1;
    await agent.hears(heard);
    const { id } = agent.heard.at(-1).look;
    agent.say({ seen: { id, usage: null, vitals: null, out_of_memory: deaths } });
    return await explanation;
  };
  expect(await explained(0)).toEqual(KILLED);
  expect(await explained(1)).toMatchObject({ isOutOfMemory: true, detail: "the host ran out of memory" });
  expect(await explained(1)).toEqual(KILLED);
  // Of any other end nobody is asked.
  const raised = { detail: "exit code 1", initFailure: null };
  expect(await seat.process.explain?.(raised)).toEqual(raised);
});

describe("its life", () => {
  verifies(
    "seats.beats",
    "both give signs of life; silence is a loss, and the agent may come back",
    async () => {
      const seat = await playedSeat();
      const agent = await seat.sit();
      agent.say(HELLO);
      seat.clock.advance(2_000);
      await until("it beats", () => agent.beats === 1);
      agent.say({ beat: {} }, { printed: {} });
      expect(await seat.process.exited).toMatchObject({ fault: "a message that no agent sends" });

      const silent = await playedSeat();
      const dumb = await silent.sit();
      silent.clock.advance(5_999);
      expect(dumb.isClosed).toBe(false);
      silent.clock.advance(1);
      await dumb.closed();
      silent.clock.advance(GRACE_MS - 1);
      expect(silent.ended).toEqual([]);
      silent.clock.advance(1);
      expect((await silent.process.exited).detail).toBe("its seat seat-1 was lost: no word from it for 30 s");
    },
  );

  verifies(
    "seats.ends",
    "the place's end or the agent's word, whichever comes first; always cleaned up",
    async () => {
      const byPlace = await playedSeat();
      byPlace.endPlace({ detail: "OOMKilled", initFailure: null, isOutOfMemory: true });
      expect(await byPlace.process.exited).toMatchObject({ detail: "OOMKilled", isOutOfMemory: true });
      expect(byPlace.placed.kills).toBe(1);

      const killed = await playedSeat();
      const agent = await killed.sit();
      killed.process.kill();
      await agent.hears(2);
      expect(agent.heard[1]).toEqual({ end: {} });
      expect(killed.placed.kills).toBe(1);
      // Nobody says how it ended: it counts no more all the same.
      killed.clock.advance(5_000);
      expect((await killed.process.exited).detail).toBe("ended");

      const refused = await playedSeat();
      const failing = await refused.sit();
      failing.say(HELLO, { failed: { message: "its files could not be fetched" } });
      expect((await refused.process.exited).initFailure?.message).toBe(
        "The app cannot start: its files could not be fetched.",
      );
    },
  );

  verifies("seats.ends", "an agent that reconnects does not put off the end of its seat", async () => {
    const seat = await playedSeat();
    const agent = await seat.sit();
    const { secret } = agent.heard[0].session;
    seat.process.kill();
    agent.socket.destroy();
    const back = await seat.call(`millrace 1 back ${seat.order.seatId} ${secret} 1`);
    await back.hears(2);
    expect(back.heard[1]).toEqual({ end: {} });
    seat.clock.advance(5_000);
    expect((await seat.process.exited).detail).toBe("ended");
  });

  test("a session that is to end never goes on, and one that is over stays so", () => {
    expect(Object.values(SESSION_MOVES.ending).toSorted()).toEqual(["ending", "ending", "over"]);
    const { over, ...open } = SESSION_MOVES;
    expect(over).toEqual({});
    for (const moves of Object.values(open)) expect(moves.close).toBe("over");
  });

  test("an agent learns of services that come and go", async () => {
    const seat = await playedSeat();
    const agent = await seat.sit();
    const [own] = agent.heard[0].session.addresses;
    agent.say(HELLO, { beat: {} });
    seat.others.push("10.0.0.7:4300");
    agent.say({ beat: {} }, { beat: {} });
    await agent.hears(2);
    expect(agent.heard[1]).toEqual({ services: { addresses: [own, "10.0.0.7:4300"] } });
    seat.others.pop();
    agent.say({ beat: {} }, { beat: {} });
    await agent.hears(3);
    expect(agent.heard.slice(2)).toEqual([{ services: { addresses: [own] } }]);
  });

  test("what keeps it from starting", async () => {
    const seat = await playedSeat();
    expect(seat.process.obstacle?.()).toBe("its seat seat-1 has not started");
    seat.placed.obstacle = "0/2 nodes are available";
    expect(seat.process.obstacle?.()).toBe("0/2 nodes are available");
    const agent = await seat.sit();
    agent.say(HELLO);
    await until("it sits", () => seat.process.obstacle?.() === "its files have not been fetched");
    agent.say(FETCHED, STARTED);
    await until("it has started", () => seat.process.obstacle?.() === null);
  });

  test("a version in no blob is refused at once", async () => {
    const version = { id: "v", appNumber: 1, bundleBlob: null, environmentBlob: null, environmentTag: null };
    const seat = await playedSeat({ version });
    expect((await seat.process.exited).initFailure?.message).toContain("its files are in no blob");
    expect(seat.placed.orders).toEqual([]);
  });
});

verifies(
  "seats.ticket",
  "who shows nothing, or nonsense, gets no answer; a replica's ticket leads home",
  async () => {
    const seat = await playedSeat();
    const blob = `millrace 1 blob ${seat.order.seatId} ${"0".repeat(32)} ${BUNDLE}`;
    for (const line of [
      "GET / HTTP/1.1",
      "millrace 2 seat x",
      `millrace 1 seat ${"0".repeat(32)}`,
      blob,
      "x".repeat(200),
    ]) {
      const other = await seat.call(line);
      await other.closed();
      expect(other.heard).toEqual([]);
    }
    const kinds: string[] = [];
    const ticket = seat.home.expect((kind) => kinds.push(kind));
    await seat.call(`millrace 1 wire ${ticket}`);
    await until("it is received", () => kinds.length === 1);
    expect(kinds).toEqual(["wire"]);
  },
);
