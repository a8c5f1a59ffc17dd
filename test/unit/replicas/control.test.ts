import { PassThrough } from "node:stream";
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { Control } from "../../../src/replicas/control.ts";
import { FRAME } from "../../../src/replicas/frames.ts";
import { anyFrames } from "../../support/any-frames.ts";
import { frame } from "../../support/hostile/mutate.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { callsInHand } from "./calls-in-hand.ts";
import { BadFrame } from "../../../src/engines/protocol.ts";

function controlWithCalls() {
  const socket = new PassThrough({ highWaterMark: 1 });
  const calls = callsInHand();
  const withdrawn: number[] = [];
  const control = new Control(socket as unknown as Socket, calls, ({ wireId }) => {
    calls.delete(wireId);
    withdrawn.push(wireId);
  });
  return { socket, calls, control, withdrawn };
}

const answer = (type: number, callId: number) => frame(type, callId);

verifies("wire.order", "a call is given back once it was asked for, and only then", () => {
  const { control, calls, withdrawn } = controlWithCalls();
  expect(() => control.push(answer(FRAME.WITHDRAWN, 1))).toThrow("was not asked back");
  const asked = controlWithCalls();
  asked.control.withdraw(asked.calls.get(2)!);
  asked.control.push(answer(FRAME.WITHDRAWN, 2));
  expect(asked.withdrawn).toEqual([2]);
  expect(() => asked.control.push(answer(FRAME.WITHDRAWN, 2))).toThrow(BadFrame);
  expect([calls.size, withdrawn]).toEqual([3, []]);
});

verifies("wire.order", "a sign of life is given once for each time it was asked for", () => {
  const { control } = controlWithCalls();
  expect(() => control.push(answer(FRAME.PONG, 0))).toThrow("PONG out of turn");
  const asked = controlWithCalls();
  for (let round = 0; round < 3; round++) {
    asked.control.ping();
    asked.control.ping();
    asked.control.push(answer(FRAME.PONG, 0));
  }
  expect(() => asked.control.push(answer(FRAME.PONG, 0))).toThrow("PONG out of turn");
  for (const bad of [answer(FRAME.PONG, 1), frame(FRAME.PONG, 0, "x"), answer(FRAME.PING, 0)]) {
    const other = controlWithCalls();
    other.control.ping();
    expect(() => other.control.push(bad)).toThrow(BadFrame);
  }
});

test("a sign of life that is owed is asked for once", async () => {
  const { socket, control } = controlWithCalls();
  const told: number[] = [];
  const reader = anyFrames((type) => told.push(type));
  socket.on("data", (data: Buffer) => reader.push(data));
  for (let i = 0; i < 5; i++) control.ping();
  control.push(answer(FRAME.PONG, 0));
  control.ping();
  control.stop();
  await until("it was told", () => told.includes(FRAME.STOP));
  expect(told).toEqual([FRAME.PING, FRAME.PING, FRAME.STOP]);
});

test("one asked for twice may answer twice, also after it is over", () => {
  const { control, calls, withdrawn } = controlWithCalls();
  const call = calls.get(1)!;
  control.withdraw(call);
  control.cancel(call);
  control.push(answer(FRAME.WITHDRAWN, 1));
  control.push(answer(FRAME.WITHDRAWN, 1));
  expect(withdrawn).toEqual([1]);
  expect(() => control.push(answer(FRAME.BEGUN, 1))).toThrow(BadFrame);
});

test("what has begun, or streams, cannot be given back", () => {
  const begun = controlWithCalls();
  begun.control.withdraw(begun.calls.get(1)!);
  begun.control.cancel(begun.calls.get(1)!);
  begun.control.push(answer(FRAME.BEGUN, 1));
  expect(() => begun.control.push(answer(FRAME.WITHDRAWN, 1))).toThrow("out of turn");
  const streaming = controlWithCalls();
  streaming.calls.get(1)!.phase = "streaming";
  streaming.control.cancel(streaming.calls.get(1)!);
  expect(() => streaming.control.push(answer(FRAME.WITHDRAWN, 1))).toThrow("out of turn");
});

test("nothing else is taken there", () => {
  for (const type of [0, FRAME.HELLO, FRAME.RESULT, FRAME.CANCEL, FRAME.STOP, 200]) {
    const { control, calls } = controlWithCalls();
    control.withdraw(calls.get(1)!);
    expect(() => control.push(answer(type, 1))).toThrow(BadFrame);
  }
  const { control, calls } = controlWithCalls();
  control.withdraw(calls.get(1)!);
  expect(() => control.push(frame(FRAME.WITHDRAWN, 1, "x"))).toThrow(BadFrame);
});

test("credit is counted where it is granted, and told", async () => {
  const { socket, control, calls } = controlWithCalls();
  const told: string[] = [];
  const reader = anyFrames((type, callId, payload) =>
    told.push(`${type} ${callId} ${payload.readUInt32LE(0)}`),
  );
  socket.on("data", (data: Buffer) => reader.push(data));
  control.grant(calls.get(3)!, 500);
  control.grant(calls.get(3)!, 700);
  expect(calls.get(3)!.creditBytes).toBe(1_200);
  await until("both were told", () => told.length === 2);
  expect(told).toEqual([`${FRAME.CREDIT} 3 500`, `${FRAME.CREDIT} 3 700`]);
});

verifies(
  "wire.limits",
  "who does not read or answer its control connection is not written to for ever",
  () => {
    const unread = controlWithCalls();
    expect(() => {
      for (let i = 0; i < 100_000; i++) unread.control.grant(unread.calls.get(1)!, 1);
    }).toThrow("does not read");
    const unanswered = controlWithCalls();
    unanswered.socket.resume();
    expect(() => {
      for (let wireId = 1; wireId < 20_000; wireId++) {
        const call = unanswered.calls.get(1)!;
        call.wireId = wireId;
        unanswered.control.withdraw(call);
        unanswered.socket.read();
      }
    }).toThrow(/does not (?:answer|read)/);
  },
);
