import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { expect } from "vitest";
import { EventStream, Piece } from "../../../src/gateway/event-stream.ts";
import type { Exchange } from "../../../src/gateway/exchange.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

const piece = (text: string): Piece => new Piece(Buffer.from(text));

/** A stream to a caller who takes nothing: its response has no socket to write to. */
function unreadStream(clock: HandClock) {
  const request = new IncomingMessage(new Socket());
  const response = new ServerResponse(request);
  const drop = (): unknown => response.destroy();
  const exchange = { request, response, from: null, open: () => {}, drop } as unknown as Exchange;
  const stream = new EventStream(exchange, { isGzip: false, stallSeconds: 600, clock }, () => {});
  stream.open(null);
  return { stream, response };
}

verifies("revoked.streams", "a stream whose end is on its way is cut off like one that goes on", () => {
  for (const end of [null, false, true]) {
    const clock = new HandClock();
    const { stream, response } = unreadStream(clock);
    stream.send(piece("data: one\n\n"));
    if (end !== null) stream.end(piece("data: two\n\n"), end);
    stream.cutOff(piece("event: error\ndata: {}\n\n"));
    clock.advance(999);
    expect([end, response.destroyed]).toEqual([end, false]);
    clock.advance(1);
    expect([end, response.destroyed]).toEqual([end, true]);
  }
});
