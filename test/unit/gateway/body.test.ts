import { EventEmitter } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import {
  BodyRoom,
  bodyRoomBytes,
  checkBodyHead,
  hasBody,
  isSoonOver,
  readBody,
} from "../../../src/gateway/body.ts";
import { AppError } from "../../../src/model/errors.ts";
import { verifies } from "../../verifies.ts";
import { RequestHead } from "../../../src/gateway/request-head.ts";

const MIB = 1024 * 1024;

/** A request whose body the test sends, and what became of it. */
class Sender {
  readonly #body = Object.assign(new PassThrough(), { socket: new EventEmitter() });
  readonly #response = new EventEmitter();
  end: AppError | number | null = null;

  constructor(room: BodyRoom, owner: string, maxBytes = 32 * MIB) {
    const request = this.#body as unknown as IncomingMessage;
    const response = this.#response as ServerResponse;
    const open = () => room.open(owner, { request, response });
    readBody(request, maxBytes, open, (error, body) => (this.end = error ?? body.length));
  }

  async send(bytes: number): Promise<void> {
    this.#body.write(Buffer.alloc(bytes));
    await new Promise(setImmediate);
  }

  async finish(): Promise<void> {
    this.#body.end();
    await new Promise(setImmediate);
  }

  answer(): void {
    this.#response.emit("close");
  }

  breakOff(): void {
    this.#body.socket.emit("close");
  }
}

verifies(
  "hardening.bodies",
  "however many senders of however many projects come, what they have sent stays within the room",
  async () => {
    const room = new BodyRoom(16 * MIB);
    const senders = Array.from({ length: 200 }, (_, place) => new Sender(room, `p-${place % 4}`));
    for (let round = 0; round < 8; round += 1) {
      for (const sender of senders) await sender.send(MIB / 4);
      expect(room.bytes).toBeLessThanOrEqual(16 * MIB);
    }
    const refused = senders.filter(({ end }) => end instanceof AppError);
    expect(refused.length).toBeGreaterThan(100);
    expect(new Set(refused.map(({ end }) => (end as AppError).code))).toEqual(new Set(["overloaded"]));
    // Whoever comes new finds some left, and small bodies need none.
    const late = new Sender(room, "p-late");
    await late.send(MIB);
    expect(late.end).toBeNull();
    const small = new Sender(room, "p-0");
    await small.send(60_000);
    await small.finish();
    expect(small.end).toBe(60_000);
    // Answered or broken off, all of it comes back, once.
    for (const [place, sender] of [...senders, late].entries()) {
      if (place % 2 === 0) sender.answer();
      sender.breakOff();
      sender.answer();
    }
    expect(room.bytes).toBe(0);
  },
);

verifies("hardening.bodies", "one body alone is taken, however large", async () => {
  const room = new BodyRoom(MIB);
  const sender = new Sender(room, "p-1");
  for (let sent = 0; sent < 8; sent += 1) await sender.send(MIB);
  await sender.finish();
  expect(sender.end).toBe(8 * MIB);
  const second = new Sender(room, "p-2");
  await second.send(MIB);
  expect(second.end).toMatchObject({ code: "overloaded" });
  sender.answer();
  const third = new Sender(room, "p-2");
  await third.send(MIB);
  expect(third.end).toBeNull();
});

test("a body beyond the app's own limit is refused as such", async () => {
  const sender = new Sender(new BodyRoom(MIB), "p-1", 100_000);
  await sender.send(100_001);
  expect(sender.end).toMatchObject({ code: "body_too_large" });
});

test("the room is a part of the machine's memory", () => {
  expect(bodyRoomBytes()).toBeGreaterThanOrEqual(256 * MIB);
});

verifies(
  "hardening.answers",
  "who asks for stored payloads and does not read them leaves room for others",
  () => {
    const room = new BodyRoom(16 * MIB);
    const ask = (owner: string, bytes: number): EventEmitter => {
      const response = new EventEmitter();
      const request = { socket: new EventEmitter() } as unknown as IncomingMessage;
      room.forAnswer(owner, { request, response: response as ServerResponse })(bytes);
      return response;
    };
    const unread = Array.from({ length: 8 }, () => ask("p-greedy", MIB));
    expect(() => ask("p-greedy", MIB)).toThrowError(expect.objectContaining({ code: "overloaded" }));
    ask("p-other", 4 * MIB);
    // What is little is always sent.
    ask("p-greedy", 64 * 1024);
    for (const response of unread) response.emit("close");
    expect(room.bytes).toBe(4 * MIB);
  },
);

const headOf = (headers: Partial<RequestHead>): RequestHead => Object.assign(new RequestHead(), headers);
const NONE = headOf({});
const JSON_HEADERS = { contentType: "application/json", contentLength: "10" };
const JSON_BODY = headOf(JSON_HEADERS);

describe("the head of a request", () => {
  test("announces a body by a length other than 0 or by chunks", () => {
    expect([NONE, headOf({ contentLength: "0" })].map(hasBody)).toEqual([false, false]);
    expect([JSON_BODY, headOf({ isChunked: true })].map(hasBody)).toEqual([true, true]);
  });

  test("needs no content type where there is no body, and JSON where there is one", () => {
    expect(() => checkBodyHead(NONE, 10)).not.toThrow();
    expect(() => checkBodyHead(headOf({ contentType: "text/plain", contentLength: "0" }), 10)).not.toThrow();
    expect(() => checkBodyHead(JSON_BODY, 10)).not.toThrow();
    expect(() => checkBodyHead(headOf({ ...JSON_HEADERS, contentType: null }), 10)).toThrow(
      "application/json",
    );
  });

  test("is refused for a media type before it is refused for its length", () => {
    const long = headOf({ ...JSON_HEADERS, contentLength: "11" });
    expect(() => checkBodyHead(long, 10)).toThrow("max_body");
    expect(() =>
      checkBodyHead(headOf({ ...JSON_HEADERS, contentLength: "11", contentType: "text/plain" }), 10),
    ).toThrow("application/json");
  });
});

describe("the rest of a refused body is read away", () => {
  test("where there is none or it is short", () => {
    for (const head of [NONE, JSON_BODY, headOf({ ...JSON_HEADERS, contentLength: "65536" })]) {
      expect(isSoonOver(head)).toBe(true);
    }
  });

  test("not where it is long or of unknown length", () => {
    for (const change of [{ contentLength: "65537" }, { isChunked: true }]) {
      expect(isSoonOver(headOf({ ...JSON_HEADERS, ...change }))).toBe(false);
    }
  });
});
