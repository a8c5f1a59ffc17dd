import { expect, test } from "vitest";
import { StreamParser } from "../../../bench/stream-parser.ts";

const HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const ANSWER = Buffer.from(`${HEAD}9\r\ndata: a\n\n\r\n1A;x=1\r\ndata: ${"b".repeat(18)}\n\n\r\n0\r\n\r\n`);

function parse(pieces: readonly Uint8Array[]): { parser: StreamParser; body: string } {
  let body = "";
  const parser = new StreamParser((bytes, from, to) => {
    body += Buffer.from(bytes.subarray(from, to)).toString();
  });
  for (const piece of pieces) parser.feed(piece, piece.length);
  return { parser, body };
}

test("an answer in chunks is read alike wherever it is cut", () => {
  for (let cut = 0; cut <= ANSWER.length; cut++) {
    const { parser, body } = parse([ANSWER.subarray(0, cut), ANSWER.subarray(cut)]);
    expect(parser).toMatchObject({ status: 200, state: "done", isGzip: false });
    expect(body).toBe(`data: a\n\ndata: ${"b".repeat(18)}\n\n`);
  }
  expect(parse([...ANSWER].map((byte) => Uint8Array.of(byte))).parser.state).toBe("done");
});

test("an answer that lacks its last chunk is not done", () => {
  expect(parse([ANSWER.subarray(0, -2)]).parser.state).toBe("last line");
  expect(parse([ANSWER.subarray(0, -5)]).parser.state).toBe("size");
});

test("an answer that is not in chunks, and bytes after the last, are broken", () => {
  expect(parse([Buffer.from("HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\n{}")]).parser).toMatchObject({
    status: 503,
    state: "broken",
  });
  expect(parse([ANSWER, Buffer.from("x")]).parser.state).toBe("broken");
});

test("gzip is known from the head", () => {
  const head = HEAD.replace("\r\n\r\n", "\r\nContent-Encoding: gzip\r\n\r\n");
  expect(parse([Buffer.from(head)]).parser.isGzip).toBe(true);
});
