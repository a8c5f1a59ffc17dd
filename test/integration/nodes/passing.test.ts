import { createHash } from "node:crypto";
import { type IncomingMessage, request as httpRequest, type ServerResponse } from "node:http";
import { once } from "node:events";
import { connect } from "node:net";
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { expect } from "vitest";
import { HeldBytes } from "../../../src/nodes/peers.ts";
import { testHop } from "../../support/nodes/hop.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const GZIP = gzipSync("a".repeat(100_000));

/** The headers of a request without those that belong to one connection. */
function ofRequest(rawHeaders: readonly string[]): string[][] {
  const pairs = rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [[name, rawHeaders[at + 1] ?? ""]] : []));
  return pairs.filter(
    ([name = ""]) => !/^(?:connection|keep-alive|te|transfer-encoding|upgrade)$/i.test(name),
  );
}

/** What each path answers: the odd things that a gateway or an app may answer. */
const PATHS: Record<string, (request: IncomingMessage, response: ServerResponse) => void | Promise<void>> = {
  echo: async (request, response) => {
    const body = await buffer(request);
    const { method, url, rawHeaders, httpVersion } = request;
    const told = JSON.stringify({
      method,
      url,
      headers: ofRequest(rawHeaders),
      httpVersion,
      trailers: request.rawTrailers,
      bytes: body.length,
      hash: createHash("sha256").update(body).digest("hex"),
    });
    response.writeHead(200, [
      "x-one",
      "1",
      "X-Two",
      "a",
      "x-two",
      "b",
      "content-length",
      String(Buffer.byteLength(told)),
    ]);
    response.end(told);
  },
  chunks: ({ httpVersion, method }, response) => {
    const mayTrail = httpVersion === "1.1" && method !== "HEAD";
    response.writeHead(200, [
      "content-type",
      "text/event-stream",
      ...(mayTrail ? ["trailer", "x-last"] : []),
    ]);
    response.write("data: 1\n\n");
    setImmediate(() => {
      response.write("data: 2\n\n");
      if (mayTrail) response.addTrailers([["x-last", "yes"]]);
      response.end();
    });
  },
  gzip: (_, response) => {
    response.writeHead(200, ["content-encoding", "gzip", "content-length", String(GZIP.length)]);
    response.end(GZIP);
  },
  empty: (_, response) => void response.writeHead(200, ["content-length", "0"]).end(),
  nothing: (_, response) => void response.writeHead(204).end(),
  unchanged: (_, response) => void response.writeHead(304, ["etag", '"x"']).end(),
  reset: (_, response) => void response.writeHead(205, ["content-length", "0"]).end(),
  teapot: (_, response) =>
    void response.writeHead(418, ["content-type", "text/plain"]).end("short and stout"),
  cookies: (_, response) =>
    void response
      .writeHead(200, ["set-cookie", "a=1", "Set-Cookie", "b=\u00e9", "content-length", "2"])
      .end("ok"),
  refuse: (_, response) =>
    void response.writeHead(413, ["content-length", "2", "connection", "close"]).end("no"),
  large: (_, response) => {
    const piece = Buffer.alloc(1024 * 1024, "x");
    response.writeHead(200, ["content-length", String(8 * piece.length)]);
    for (let i = 0; i < 8; i++) response.write(piece);
    response.end();
  },
};

const handler = (request: IncomingMessage, response: ServerResponse): void => {
  const name = (request.url ?? "").split("?")[0]?.slice(1) ?? "";
  const answer = PATHS[name];
  if (answer) void answer(request, response);
  else response.writeHead(404, ["content-length", "0"]).end();
};

/** All that comes back for these bytes, until the other side closes. */
async function exchange(url: string, bytes: string | Buffer): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  const all = await buffer(socket);
  return all.toString("latin1").replaceAll(/^(date): .*$/gim, "$1: now");
}

const HOST = "Host: api.example\r\n";
const LAST = `${HOST}Connection: close\r\n`;
const BIG = "y".repeat(200_000);

const REQUESTS: Record<string, string> = {
  "a GET": `GET /echo?a=%2F&b=1+2 HTTP/1.1\r\n${LAST}\r\n`,
  "headers in their order and case, twice, with bytes of Latin-1": `GET /echo HTTP/1.1\r\n${LAST}X-A: 1\r\nx-a: 2\r\nX-\u0041: \u00e9\r\nx-millrace-for: api 1.2.3.4 1.1 held\r\nCookie: a=b\r\n\r\n`,
  "headers that belong to the connection": `GET /echo HTTP/1.1\r\n${HOST}Connection: close, x-mine\r\nX-Mine: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\n\r\n`,
  "a Connection that names what frames the body": `POST /echo HTTP/1.1\r\n${HOST}Connection: close, content-length\r\nContent-Length: 5\r\n\r\nhello`,
  "a small body": `POST /echo HTTP/1.1\r\n${LAST}Content-Length: 5\r\n\r\nhello`,
  "an empty body": `POST /echo HTTP/1.1\r\n${LAST}Content-Length: 0\r\n\r\n`,
  "a large body": `PUT /echo HTTP/1.1\r\n${LAST}Content-Length: ${BIG.length}\r\n\r\n${BIG}`,
  "a body in chunks, with trailers": `POST /echo HTTP/1.1\r\n${LAST}Transfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n5\r\nhello\r\n3;a=b\r\nyou\r\n0\r\nX-Sum: 7\r\n\r\n`,
  "a method nobody knows": `PROPFIND /echo HTTP/1.1\r\n${LAST}\r\n`,
  "HTTP/1.0 that expects something": `POST /echo HTTP/1.0\r\nExpect: foo\r\nContent-Length: 5\r\n\r\nhello`,
  "HTTP/1.0 without a Host": "GET /echo HTTP/1.0\r\n\r\n",
  "HTTP/1.0 and a stream": "GET /chunks HTTP/1.0\r\n\r\n",
  "HTTP/1.0, kept alive": `GET /empty HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /echo HTTP/1.0\r\n\r\n`,
  "a stream with trailers": `GET /chunks HTTP/1.1\r\n${LAST}TE: trailers\r\n\r\n`,
  "an encoded answer": `GET /gzip HTTP/1.1\r\n${LAST}Accept-Encoding: gzip\r\n\r\n`,
  HEAD: `HEAD /gzip HTTP/1.1\r\n${LAST}\r\n`,
  "HEAD of a stream": `HEAD /chunks HTTP/1.1\r\n${LAST}\r\n`,
  "an answer of no bytes": `GET /empty HTTP/1.1\r\n${LAST}\r\n`,
  "204": `GET /nothing HTTP/1.1\r\n${LAST}\r\n`,
  "205": `GET /reset HTTP/1.1\r\n${LAST}\r\n`,
  "304": `GET /unchanged HTTP/1.1\r\n${LAST}\r\n`,
  "a status nobody knows": `GET /teapot HTTP/1.1\r\n${LAST}\r\n`,
  cookies: `GET /cookies HTTP/1.1\r\n${LAST}\r\n`,
  "a refused body": `POST /refuse HTTP/1.1\r\n${HOST}Content-Length: 100000000\r\n\r\n`,
  "a refused body that was not sent": `POST /refuse HTTP/1.1\r\n${HOST}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n`,
  "a large answer": `GET /large HTTP/1.1\r\n${LAST}\r\n`,
  "several requests on one connection": `GET /empty HTTP/1.1\r\n${HOST}\r\nPOST /echo HTTP/1.1\r\n${HOST}Content-Length: 2\r\n\r\nhiGET /chunks HTTP/1.1\r\n${HOST}\r\nGET /nothing HTTP/1.1\r\n${LAST}\r\n`,
};

for (const [name, bytes] of Object.entries(REQUESTS)) {
  verifies("peers.bytes", `${name}: passed on, the bytes are the same`, async () => {
    const { directUrl, passedUrl } = await testHop(handler);
    expect(await exchange(passedUrl, bytes)).toBe(await exchange(directUrl, bytes));
  });
}

verifies("peers.bytes", "a head as large as an app may answer passes, with what its node adds", async () => {
  // What an app may answer, beside what its node says of it.
  const value = "x".repeat(32 * 1024 - 64);
  const { directUrl, passedUrl } = await testHop((_, response) => {
    response.writeHead(200, ["x-large", value, "x-more", "y".repeat(512), "content-length", "2"]).end("ok");
  });
  for (const url of [directUrl, passedUrl]) {
    const request = httpRequest(url, { agent: false, maxHeaderSize: 64 * 1024 }).end();
    const [response] = (await once(request, "response")) as [IncomingMessage];
    expect([response.statusCode, response.headers["x-large"], (await buffer(response)).toString()]).toEqual([
      200,
      value,
      "ok",
    ]);
  }
});

verifies(
  "peers.pace",
  "bodies that are held on their way are bounded, however many callers send them",
  async () => {
    const room = new HeldBytes(4 * 32 * 1024);
    const held: boolean[] = [];
    const { passedUrl } = await testHop(
      (request, response, from) => {
        held.push(from?.isHeld ?? false);
        void (async () => response.end(String((await buffer(request)).length)))();
      },
      {},
      room,
    );
    const body = Buffer.alloc(32 * 1024);
    const requests = Array.from({ length: 50 }, () => {
      const headers = { "content-length": body.length };
      const request = httpRequest(passedUrl, { method: "POST", agent: false, headers });
      request.write(body.subarray(1));
      return request;
    });
    await until("the room is taken, and the rest goes without", () => !room.hasRoom && held.length === 46);
    expect([room.bytes, new Set(held)]).toEqual([4 * body.length, new Set([true])]);
    const answers = await Promise.all(
      requests.map(async (request) => {
        const response = once(request, "response") as Promise<[IncomingMessage]>;
        request.end(body.subarray(0, 1));
        return (await buffer((await response)[0])).toString();
      }),
    );
    expect(new Set(answers)).toEqual(new Set([String(body.length)]));
    await until("nothing is held", () => room.bytes === 0);
  },
);
