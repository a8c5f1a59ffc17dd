import { expect, test } from "vitest";
import { ResponseParser } from "../../../bench/response-parser.ts";

const ANSWER =
  'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 12\r\nDate: x\r\n\r\n{"n":"ä12"}';

function feed(parser: ResponseParser, text: string) {
  const bytes = Buffer.from(text);
  return parser.feed(bytes, bytes.length);
}

test("an answer is complete exactly at its last byte, wherever the bytes are cut", () => {
  const bytes = Buffer.from(ANSWER);
  for (let cut = 1; cut < bytes.length; cut++) {
    const parser = new ResponseParser();
    expect(parser.feed(bytes.subarray(0, cut), cut)).toBe("partial");
    expect(parser.feed(bytes.subarray(cut), bytes.length - cut)).toBe("complete");
    expect(parser.status).toBe(200);
  }
});

test("a connection's next answer is read afresh", () => {
  const parser = new ResponseParser();
  expect(feed(parser, ANSWER)).toBe("complete");
  expect(feed(parser, "HTTP/1.1 503 Busy\r\ncontent-length:0\r\n\r\n")).toBe("complete");
  expect(parser.status).toBe(503);
  expect(feed(parser, ANSWER)).toBe("complete");
  expect(parser.status).toBe(200);
});

test("an answer without a content-length is broken, also after one that had it", () => {
  const parser = new ResponseParser();
  expect(feed(parser, ANSWER)).toBe("complete");
  expect(feed(parser, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n")).toBe("broken");
});

test("bytes after the end of an answer are broken", () => {
  expect(feed(new ResponseParser(), `${ANSWER}x`)).toBe("broken");
});

test("a header whose name only ends in content-length does not count", () => {
  const head = "HTTP/1.1 200 OK\r\nx-content-length: 3\r\ncontent-lengths: 4\r\ncontent-length: 2\r\n\r\n";
  expect(feed(new ResponseParser(), `${head}{}`)).toBe("complete");
});
