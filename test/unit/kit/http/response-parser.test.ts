import { describe, expect, test } from "vitest";
import { BadResponse } from "../../../../src/kit/http/fields.ts";
import { ResponseParser } from "../../../../src/kit/http/response-parser.ts";
import { verifies } from "../../../verifies.ts";

/** What became of a response: in one word for each thing that was told, or why it was refused. */
type Read = {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: string;
  readonly trailers: readonly string[] | null;
  readonly isReusable: boolean;
  readonly continues: number;
  readonly refusal: string | null;
};

function read(pieces: readonly Buffer[], method = "GET", isClosed = false): Read {
  const got = { status: 0, headers: [] as readonly string[], body: "", continues: 0, isReusable: false };
  let trailers: readonly string[] | null = null;
  const parser = new ResponseParser(method, {
    onContinue: () => (got.continues += 1),
    onHead: ({ status, headers }) => Object.assign(got, { status, headers }),
    onBody: (bytes) => (got.body += bytes.toString("latin1")),
    onEnd: (ended, isReusable) => {
      trailers = ended;
      got.isReusable = isReusable;
    },
  });
  let refusal: string | null = null;
  try {
    for (const piece of pieces) {
      const fed = Buffer.from(piece);
      const before = got.body.length;
      parser.feed(fed);
      // Whoever was handed a part of it may free it.
      if (got.body.length > before) fed.fill(0);
    }
    if (isClosed) parser.close();
  } catch (error) {
    if (!(error instanceof BadResponse)) throw error;
    refusal = error.message;
  }
  return { ...got, trailers, refusal };
}

/** However it is cut: whole, byte by byte, and once at every place. */
function readAll(text: string, method = "GET", isClosed = false): Read {
  const bytes = Buffer.from(text, "latin1");
  const whole = read([bytes], method, isClosed);
  const cuts = [Array.from(bytes, (byte) => Buffer.from([byte]))];
  for (let at = 1; at < bytes.length; at++) cuts.push([bytes.subarray(0, at), bytes.subarray(at)]);
  for (const pieces of cuts) {
    const cut = read(pieces, method, isClosed);
    // Where it is refused, more or less of it may have been told before; what follows it may have come or not.
    const isAlike = whole.refusal === null || cut.refusal === null;
    expect({ ...(isAlike ? cut : whole), isReusable: whole.isReusable }).toEqual(whole);
  }
  return whole;
}

const OK = "HTTP/1.1 200 OK\r\n";

verifies("servers.hostile", "valid responses are read, however they are cut", () => {
  expect(readAll(`${OK}Content-Length: 5\r\nX-A:  b c \r\n\r\nhello`)).toEqual({
    status: 200,
    headers: ["Content-Length", "5", "X-A", "b c"],
    body: "hello",
    trailers: [],
    isReusable: true,
    continues: 0,
    refusal: null,
  });
  const chunked = readAll(
    `${OK}Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0A\r\n, world!!!\r\n0\r\nX-Sum: 1\r\n\r\n`,
  );
  expect(chunked).toMatchObject({ body: "hello, world!!!", trailers: ["X-Sum", "1"], isReusable: true });
  expect(readAll("HTTP/1.1 204 \r\n\r\n")).toMatchObject({ status: 204, body: "", isReusable: true });
  expect(readAll("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n")).toMatchObject({
    isReusable: true,
  });
  expect(readAll(`${OK}Content-Length: 9\r\n\r\n`, "HEAD")).toMatchObject({ body: "", trailers: [] });
  expect(
    readAll(
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n${OK}Content-Length: 0\r\n\r\n`,
    ),
  ).toMatchObject({
    status: 200,
    continues: 1,
    isReusable: true,
  });
  expect(readAll(`${OK}Content-Length: 2\r\nContent-Length: 2\r\n\r\nok`)).toMatchObject({ body: "ok" });
});

test("a body without a length ends with its connection", () => {
  expect(readAll(`${OK}\r\nall of it`, "GET", true)).toMatchObject({ body: "all of it", isReusable: false });
  expect(readAll("HTTP/1.0 200\r\n\r\nold", "GET", true)).toMatchObject({ body: "old", isReusable: false });
});

test("who closes, who is old and who says two lengths gets no second request", () => {
  const reuse = (head: string) => readAll(`${head}\r\n\r\nok`).isReusable;
  expect(reuse(`${OK}Connection: close\r\nContent-Length: 2`)).toBe(false);
  expect(reuse(`${OK}Connection: X-Hop, Close\r\nContent-Length: 2`)).toBe(false);
  expect(reuse("HTTP/1.0 200 OK\r\nContent-Length: 2")).toBe(false);
  expect(reuse("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2")).toBe(true);
  const both = readAll(`${OK}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`);
  expect(both).toMatchObject({ body: "ok", isReusable: false });
  expect(read([Buffer.from(`${OK}Content-Length: 2\r\n\r\nokmore`)])).toMatchObject({
    body: "ok",
    isReusable: false,
  });
});

describe("what is refused", () => {
  test.each<[string, string]>([
    ["no HTTP", "hello\r\n\r\n"],
    ["another version", "HTTP/2 200 OK\r\n\r\n"],
    ["no status", "HTTP/1.1 OK\r\n\r\n"],
    ["a status of two digits", "HTTP/1.1 20 OK\r\n\r\n"],
    ["a status that begins with 0", "HTTP/1.1 099 OK\r\n\r\n"],
    ["a protocol nobody asked for", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"],
    ["a header without a colon", `${OK}X\r\n\r\n`],
    ["a header without a name", `${OK}: x\r\n\r\n`],
    ["a blank before the colon", `${OK}Content-Length : 5\r\n\r\n`],
    ["a folded header", `${OK}X: a\r\n b\r\n\r\n`],
    ["a bare line feed", `${OK}X: a\nContent-Length: 2\r\n\r\nok`],
    ["a bare carriage return", `${OK}X: a\rb\r\n\r\n`],
    ["a zero byte", `${OK}X: a\0b\r\n\r\n`],
    ["a name that is no token", `${OK}X(a): b\r\n\r\n`],
    ["two lengths", `${OK}Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc`],
    ["a list of lengths", `${OK}Content-Length: 2, 2\r\n\r\nab`],
    ["a length with a sign", `${OK}Content-Length: +2\r\n\r\nab`],
    ["a length too large to count", `${OK}Content-Length: ${"9".repeat(16)}\r\n\r\n`],
    ["another coding", `${OK}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
    ["a coding twice", `${OK}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    ["a chunk without a size", `${OK}Transfer-Encoding: chunked\r\n\r\n\r\nok`],
    ["a size with a sign", `${OK}Transfer-Encoding: chunked\r\n\r\n-1\r\nok`],
    ["a size that is none", `${OK}Transfer-Encoding: chunked\r\n\r\n0x2\r\nok`],
    ["a size too large to count", `${OK}Transfer-Encoding: chunked\r\n\r\n${"f".repeat(13)}\r\nok`],
    ["a chunk longer than it said", `${OK}Transfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n`],
    ["a malformed trailer", `${OK}Transfer-Encoding: chunked\r\n\r\n0\r\nbad\r\n\r\n`],
  ])("%s", (_, text) => {
    expect(readAll(text).refusal).not.toBeNull();
  });

  test("what never ends is refused when it is too much", () => {
    const much = Buffer.from("X-A: aaaaaaaaaaaaaaaaaaaaaaaa\r\n".repeat(100));
    const endless = (first: string) => read([Buffer.from(first), ...Array.from({ length: 20 }, () => much)]);
    expect(endless(OK).refusal).toMatch(/headers are larger than 32768 bytes/);
    expect(endless(`${OK}Transfer-Encoding: chunked\r\n\r\n0\r\n`).refusal).toMatch(/trailers are too large/);
    expect(
      read([Buffer.from(`${OK}Transfer-Encoding: chunked\r\n\r\n1;`), Buffer.alloc(5000, "x")]).refusal,
    ).toMatch(/too long/);
    expect(read([Buffer.from("HTTP/1.1 103 Early\r\n\r\n".repeat(17))]).refusal).toMatch(/interim/);
  });

  test("a connection that ends too early", () => {
    for (const text of [
      "",
      OK,
      `${OK}Content-Length: 5\r\n\r\nhell`,
      `${OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`,
    ])
      expect(read([Buffer.from(text)], "GET", true).refusal).toMatch(/closed the connection before/);
  });
});
