import { PassThrough } from "node:stream";
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import type { Exit, Vitals } from "../../../../src/engines/engine.ts";
import { Template } from "../../../../src/engines/templates/template.ts";
import { HandClock } from "../../../support/clocks.ts";
import { FUNCTIONS } from "../../../support/hostile/cases.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";
import { WIRE_LIMITS } from "../../../../src/engines/protocol.ts";

const READY = { ready: { pid: 4711, python: "3.11.7", functions: FUNCTIONS, forks: true, reason: null } };
const ORDINARY = { ready: { ...READY.ready, forks: false } };
const FAILED = { failed: { message: "ImportError: x", traceback: "Traceback" } };

/** A template whose process a test plays. */
function playedTemplate() {
  const clock = new HandClock();
  const told: string[] = [];
  const look: { now: Vitals | null } = { now: null };
  const { promise: exited, resolve: exit } = Promise.withResolvers<Exit>();
  const started = {
    exited,
    kill: () => {
      told.push("killed");
      exit({ detail: "killed by SIGTERM", initFailure: null });
    },
    vitals: () => look.now,
    usage: async () => null,
  };
  const template = new Template(started, clock, {
    onReady: (forks) => told.push(`ready ${forks}`),
    onIdle: () => told.push("idle"),
    onFault: (fault) => told.push(`fault: ${fault}`),
    onDead: (why, unborn) => told.push(`dead: ${why}: ${unborn.join(" ")}`),
    onLost: () => told.push("lost"),
    onError: (error) => told.push(`error: ${String(error)}`),
    onGone: ({ initFailure }) => told.push(`gone ${initFailure?.message ?? ""}`),
  });
  const socket = new PassThrough();
  const said: string[] = [];
  // What is written to it is what the service says.
  const connection = Object.assign(socket, {
    write: (text: string) => {
      said.push(text);
      return true;
    },
  });
  template.attach(connection as unknown as Socket);
  const say = async (...lines: (object | string)[]): Promise<void> => {
    for (const line of lines) socket.push(typeof line === "string" ? line : `${JSON.stringify(line)}\n`);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { template, clock, told, said, say, exit, socket, look };
}

verifies(
  "wire.fault.line",
  "a line that is no message, or out of turn, ends its template and is told",
  async () => {
    const cases: [(object | string)[], RegExp][] = [
      [["not json\n"], /^fault: a line that is not JSON/],
      [["\n"], /^fault: a line that is not JSON/],
      [["[]\n"], /^fault: a line that cannot be read/],
      [[{ ready: { ...READY.ready, pid: -1 } }], /^fault: a line that cannot be read/],
      [["x".repeat(WIRE_LIMITS.helloBytes + 2)], /^fault: a line of more than/],
      [["[".repeat(WIRE_LIMITS.depth + 1), "\n"], /^fault: a line that is not JSON/],
      [[{ exited: { id: "r-none", code: 0 } }], /^fault: "exited" out of turn/],
    ];
    for (const [lines, fault] of cases) {
      const { told, say } = playedTemplate();
      await say(...lines);
      await until("it is gone", () => told.some((word) => word.startsWith("gone")));
      expect(told[0]).toMatch(fault);
      expect(told.slice(1)).toEqual(["killed", "gone "]);
    }
  },
);

verifies("gpu.stopped", "an import that is stopped is ended, and not one that works for long", async () => {
  const stopped = { atMs: 0, isStopped: true, threads: new Map() };
  const pass = async (clock: HandClock): Promise<void> => {
    clock.advance(1_000);
    // The next check comes after what was sent meanwhile was read.
    await new Promise((resolve) => setImmediate(resolve));
  };
  const { clock, told, look } = playedTemplate();
  look.now = { ...stopped, isStopped: false };
  for (let second = 0; second < 60; second++) await pass(clock);
  look.now = stopped;
  for (let second = 0; second < 4; second++) await pass(clock);
  // It goes on.
  look.now = { ...stopped, isStopped: false };
  await pass(clock);
  look.now = stopped;
  for (let second = 0; second < 4; second++) await pass(clock);
  expect(told).toEqual([]);
  await pass(clock);
  await until("it is gone", () => {
    clock.advance(100);
    return told.length > 1;
  });
  const why = "The import did not end: it was stopped and did not answer for 5 s.";
  expect([told, clock.pending]).toEqual([["killed", `gone ${why}`], 0]);
  // What has been imported is looked at only while it owes a fork.
  const ready = playedTemplate();
  await ready.say(READY);
  expect(ready.clock.pending).toBe(0);
});

test.each([
  ["ready twice", [READY, READY], 'fault: "ready" out of turn'],
  ["failed after ready", [READY, FAILED], 'fault: "failed" out of turn'],
  ["ready after failed", [FAILED, READY], 'fault: "ready" out of turn'],
  ["a word of one that is a replica by now", [ORDINARY, READY], 'fault: "ready" out of turn'],
  [
    "the birth of nobody",
    [READY, { forked: { id: "r-none" } }],
    'fault: "forked" for a replica that it was not told to fork',
  ],
  [
    "the end of nobody",
    [READY, { exited: { id: "r-none", code: 0 } }],
    'fault: "exited" for a replica that it never forked',
  ],
])("%s is out of turn", async (_, lines, fault) => {
  const { told, say } = playedTemplate();
  await say(...lines);
  await until("it is gone", () => told.some((word) => word.startsWith("gone")));
  expect(told).toContain(fault);
  expect(told.filter((word) => word.startsWith("fault"))).toHaveLength(1);
});

test("a template that does not end a replica is ended itself", async () => {
  const { template, clock, told, said, say, socket } = playedTemplate();
  await say(READY);
  const replica = template.fork({ id: "r-one", ticket: "ticket" });
  replica.kill();
  expect(said.map((text) => JSON.parse(text) as object)).toEqual([
    { fork: { id: "r-one", ticket: "ticket" } },
    { kill: "r-one" },
  ]);
  clock.advance(5_000);
  expect(said.slice(2).map((text) => JSON.parse(text) as object)).toEqual([{ end: "r-one" }]);
  clock.advance(5_000);
  socket.destroy();
  expect(await replica.exited).toEqual({ detail: "its template ended", initFailure: null });
  expect(told).toEqual(["ready true", "killed", "lost", "gone "]);
});

/** So many seconds, after each of which it could have been heard. */
async function seconds(clock: HandClock, count: number): Promise<void> {
  for (let second = 0; second < count; second++) {
    clock.advance(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const STOPPED: Vitals = { atMs: 0, isStopped: true, threads: new Map() };

verifies(
  "replica.template-dead",
  "one that is stopped and owes a fork for 5 s is dead, and ended",
  async () => {
    const { template, clock, told, say, look } = playedTemplate();
    await say(READY);
    const replica = template.fork({ id: "r-one", ticket: "ticket" });
    look.now = STOPPED;
    await seconds(clock, 4);
    expect([told, replica.obstacle?.()]).toEqual([["ready true"], "the app's template has not answered"]);
    await seconds(clock, 1);
    expect(told.slice(1)).toEqual(["dead: it was stopped and did not answer for 5 s: r-one", "killed"]);
  },
);

verifies(
  "replica.template-dead",
  "one that answers, or computes, or owes nothing, is left alone",
  async () => {
    const { template, clock, told, say, look } = playedTemplate();
    await say(READY);
    template.fork({ id: "r-one", ticket: "ticket" });
    await say({ forked: { id: "r-one" } });
    look.now = STOPPED;
    await seconds(clock, 60);
    template.fork({ id: "r-two", ticket: "ticket" });
    for (let usedMs = 0; usedMs < 60_000; usedMs += 1_000) {
      look.now = { atMs: usedMs, isStopped: false, threads: new Map([[1, { usedMs, isRunnable: false }]]) };
      await seconds(clock, 1);
    }
    await say({ forked: { id: "r-two" } });
    expect([told, clock.pending]).toEqual([["ready true"], 0]);
  },
);

verifies(
  "replica.template-dead",
  "a dead one is ended with the last of its replicas that lives",
  async () => {
    const { template, clock, told, say, look } = playedTemplate();
    await say(READY);
    const living = template.fork({ id: "r-one", ticket: "ticket" });
    await say({ forked: { id: "r-one" } });
    template.fork({ id: "r-two", ticket: "ticket" });
    look.now = STOPPED;
    await seconds(clock, 5);
    expect(told.slice(1)).toEqual(["dead: it was stopped and did not answer for 5 s: r-two"]);
    // It wakes, and does what it was told long ago.
    await say({ forked: { id: "r-two" } }, { exited: { id: "r-two", code: 0 } });
    await seconds(clock, 60);
    expect(told).not.toContain("killed");
    living.kill();
    expect(await living.exited).toMatchObject({ detail: "stopped together with its dead template" });
    expect(told.at(-1)).toBe("killed");
  },
);

test("one that closes its connection and stays is ended", async () => {
  const { clock, told, say, socket } = playedTemplate();
  await say(READY);
  socket.destroy();
  await until("the close is known", () => clock.pending > 0);
  clock.advance(5_000);
  await until("it is gone", () => told.includes("gone "));
  expect(told).toContain("fault: it closed its connection");
});

test("one that closes its connection because it serves is left alone", async () => {
  const { clock, told, say, socket } = playedTemplate();
  await say(ORDINARY);
  socket.destroy();
  await new Promise((resolve) => setImmediate(resolve));
  clock.advance(60_000);
  expect(told).toEqual(["ready false"]);
});

verifies(
  "fork.template-lost",
  "a template whose connection closes is told of before its process has ended",
  async () => {
    const { told, say, socket, exit } = playedTemplate();
    await say(READY);
    socket.destroy();
    await until("its owner knows", () => told.includes("lost"));
    exit({ detail: "killed by SIGKILL", initFailure: null });
    await until("it is gone", () => told.includes("gone "));
    expect(told).toEqual(["ready true", "lost", "gone "]);
  },
);
