import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { expect } from "vitest";
import { UnreadAnswers } from "../../../src/gateway/unread-answers.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

const STALL_MS = 60_000;

/** A connection whose bytes the test takes, as far as is looked at. */
function playedConnection() {
  const handle = { bytesWritten: 1_000_000, writeQueueSize: 900_000 };
  const socket = { _handle: handle, destroyed: false, destroy: () => (socket.destroyed = true) };
  const answer = (hasTurn: boolean) => ({
    writableFinished: false,
    writableLength: 900_000,
    socket: hasTurn ? socket : null,
  });
  return { handle, socket, answer };
}

function playedWatch() {
  const clock = new HandClock();
  const unread = new UnreadAnswers(STALL_MS, clock);
  const add = (socket: object, response: object): void =>
    unread.add(socket as unknown as Socket, response as unknown as ServerResponse);
  return { clock, add };
}

verifies(
  "listener.unread",
  "an answer of which nothing is taken ends its connection, and no timer stays",
  () => {
    const { clock, add } = playedWatch();
    const { socket, answer } = playedConnection();
    add(socket, answer(true));
    clock.advance(STALL_MS - 1);
    expect(socket.destroyed).toBe(false);
    clock.advance(1);
    expect(socket.destroyed).toBe(true);
    clock.advance(STALL_MS);
    expect(clock.pending).toBe(0);
  },
);

verifies("listener.unread", "one that is taken slowly is left alone", () => {
  const { clock, add } = playedWatch();
  const { handle, socket, answer } = playedConnection();
  add(socket, answer(true));
  for (let round = 0; round < 10; round += 1) {
    handle.writeQueueSize -= 1;
    clock.advance(STALL_MS - 1);
  }
  expect(socket.destroyed).toBe(false);
});

verifies("listener.unread", "one that is still being made may have nothing to send for long", () => {
  const { clock, add } = playedWatch();
  const { socket, answer } = playedConnection();
  const making = answer(true);
  making.writableLength = 0;
  add(socket, making);
  clock.advance(20 * STALL_MS);
  expect(socket.destroyed).toBe(false);
  // From the next piece on it has the same time as others.
  making.writableLength = 100;
  clock.advance(2 * STALL_MS);
  expect(socket.destroyed).toBe(true);
});

verifies("listener.unread", "one answer's time ends no connection that waits for the next answer", () => {
  const { clock, add } = playedWatch();
  const { socket, answer } = playedConnection();
  const first = answer(true);
  const second = answer(false);
  add(socket, first);
  add(socket, second);
  // The first is taken; the run behind the one between them goes on for long.
  first.writableFinished = true;
  clock.advance(20 * STALL_MS);
  expect(socket.destroyed).toBe(false);
  // From its turn on the second has the same time.
  Object.assign(second, { socket });
  clock.advance(STALL_MS - 1);
  expect(socket.destroyed).toBe(false);
  clock.advance(STALL_MS);
  expect(socket.destroyed).toBe(true);
});
