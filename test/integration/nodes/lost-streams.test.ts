import type { Socket } from "node:net";
import { createGunzip } from "node:zlib";
import { expect } from "vitest";
import { GzipMember } from "../../../src/kit/gzip-member.ts";
import { BROKEN_OFF_TRAILER, EVENTS_HEADER } from "../../../src/nodes/forward/hop-head.ts";
import { answerOf, ask, testHop } from "../../support/nodes/hop.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const HEAD = ["content-type", "text/event-stream", "x-request-id", "the-id"];
const MARKED = [EVENTS_HEADER, "1", ...HEAD];
const MESSAGE = "data: one\n\n";
/** A chunk as it goes over the wire, so that half of it can be sent. */
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;

for (const [name, headers, sent, got] of [
  ["after a message", MARKED, chunk(MESSAGE), MESSAGE],
  ["after two messages", MARKED, chunk(MESSAGE + MESSAGE), MESSAGE + MESSAGE],
  ["before the first message", MARKED, "", ""],
  ["in the middle of a message", MARKED, chunk(MESSAGE) + chunk(MESSAGE).slice(0, 8), null],
  ["in a stream of an app's own", HEAD, chunk(MESSAGE), null],
  ["in an app's own with our mark", [...HEAD, EVENTS_HEADER, "1"], chunk(MESSAGE), null],
] as const) {
  const what = got === null ? "cuts the stream" : "is told of by its last event";
  verifies("peers.events-lost", `an owner that is lost ${name} ${what}`, async () => {
    let owner: Socket | null = null;
    const { passedUrl, passed } = await testHop((request) => {
      owner = request.socket;
      const lines = Array.from({ length: headers.length / 2 }, (_, i) =>
        headers.slice(i * 2, i * 2 + 2).join(": "),
      );
      const fields = [...lines, "transfer-encoding: chunked"].join("\r\n");
      owner.write(`HTTP/1.1 200 OK\r\n${fields}\r\n\r\n${sent}`);
    });
    const response = await answerOf(ask(passedUrl));
    const isOurs = headers[0] === EVENTS_HEADER;
    expect(response.rawHeaders.slice(0, 2)).toEqual(["content-type", "text/event-stream"]);
    expect(Object.hasOwn(response.headers, EVENTS_HEADER)).toBe(!isOurs && headers.length > HEAD.length);
    let text = "";
    response.on("data", (data) => (text += String(data))).on("error", () => {});
    const closed = new Promise((resolve) => response.once("close", resolve));
    await until("what was sent has come", () => sent === "" || text.length > 0);
    (owner as Socket | null)?.destroy();
    await closed;
    expect([response.complete, passed]).toEqual([false, [got === null ? "lost" : "done"]]);
    if (got === null) expect(text).not.toContain("event: error");
    else {
      expect(text.startsWith(`${got}event: error\ndata: {`)).toBe(true);
      const [error] = text.slice(got.length + "event: error\ndata: ".length).split("\n");
      expect(JSON.parse(error ?? "")).toMatchObject({ code: "node_lost", request_id: "the-id" });
    }
  });
}

verifies("peers.events-lost", "an owner that is gone without a word is told of too", async () => {
  const { passedUrl, front, owner } = await testHop((_, response) => {
    response.writeHead(200, MARKED).write(MESSAGE);
  });
  const response = await answerOf(ask(passedUrl));
  let text = "";
  response.on("data", (data) => (text += String(data))).on("error", () => {});
  await until("the message has come", () => text === MESSAGE);
  front.peers.forget(owner.peer.id);
  front.peers.abandon(owner.peer.id);
  await until("the error has come", () => text.length > MESSAGE.length);
  expect(text).toMatch(/^data: one\n\nevent: error\ndata: \{.*"node_lost".*\}\n\n$/);
});

verifies("peers.events-lost", "an owner that is lost is told of in a compressed stream too", async () => {
  let owner: Socket | null = null;
  const { passedUrl } = await testHop((request, response) => {
    owner = request.socket;
    const member = new GzipMember();
    response.writeHead(200, [...MARKED, "content-encoding", "gzip"]);
    response.write(member.begin());
    response.write(member.add(Buffer.from(MESSAGE)));
  });
  const response = await answerOf(ask(passedUrl));
  const gunzip = response.pipe(createGunzip());
  let text = "";
  gunzip.on("data", (data) => (text += String(data))).on("error", () => {});
  response.on("error", () => {});
  await until("the message has come", () => text === MESSAGE);
  (owner as Socket | null)?.destroy();
  await until("the error has come", () => text.length > MESSAGE.length);
  expect(text).toMatch(/^data: one\n\nevent: error\ndata: \{.*"node_lost".*\}\n\n$/);
});

for (const [name, headers, isWhole] of [
  ["of the service's own is broken off", MARKED, false],
  ["of an app's own is passed on as it came", HEAD, true],
] as const) {
  verifies("peers.events-lost", `a stream ${name} after a last message, and nothing is added`, async () => {
    const { passedUrl, passed } = await testHop((_, response) => {
      response.writeHead(200, headers).write(MESSAGE);
      response.addTrailers({ [BROKEN_OFF_TRAILER]: "1" });
      response.end("event: error\ndata: {}\n\n");
    });
    const response = await answerOf(ask(passedUrl));
    let text = "";
    response.on("data", (data) => (text += String(data))).on("error", () => {});
    await new Promise((resolve) => response.once("close", resolve));
    expect([text, response.complete]).toEqual([`${MESSAGE}event: error\ndata: {}\n\n`, isWhole]);
    expect(passed).toEqual(["done"]);
  });
}

verifies(
  "revoked.streams",
  "an answer that the owner has dropped ends though its caller reads nothing",
  async () => {
    let isFull = false;
    const { passedUrl, passed, front, owner } = await testHop((_, response) => {
      response.writeHead(200, MARKED);
      const piece = Buffer.alloc(1024 * 1024, MESSAGE);
      const fill = (): void => {
        while (response.write(piece));
        isFull = true;
        response.once("drain", fill);
      };
      fill();
    });
    const response = await answerOf(ask(passedUrl));
    response.on("error", () => {});
    await until("nothing more is taken", () => isFull);
    expect(passed).toEqual([]);
    front.peers.dropped.drop(owner.peer.id, "another-id");
    front.peers.dropped.drop(owner.peer.id, "the-id");
    await until("it is over", () => passed.length > 0);
    expect(passed).toEqual(["done"]);
    response.destroy();
  },
);
