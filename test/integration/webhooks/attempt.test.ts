import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { AddressRanges } from "../../../src/kit/ip-addresses.ts";
import { type Answer, type Resolve, Sender } from "../../../src/runs/webhooks/sender.ts";
import { HandClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { MODES, WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const LOOPBACK = new AddressRanges(["127.0.0.0/8"]);
const DEADLINE_MS = 15_000;
const ok: Answer = { status: 204, error: null, retryAfterMs: null };
const TIMED_OUT: Answer = { status: null, error: "timed_out", retryAfterMs: null };

/** A sender whose deadline passes only when the test moves its clock. */
function testSender(resolve?: Resolve): Sender & { readonly clock: HandClock } {
  const clock = new HandClock();
  const sender = new Sender({ allow: LOOPBACK, clock, ...(resolve && { resolve }) });
  onTestFinished(() => sender.close());
  return Object.assign(sender, { clock });
}

async function post(sender: Sender, url: string, body: Buffer | string = "{}"): Promise<Answer | null> {
  const headers = { "content-type": "application/json", "content-length": String(Buffer.byteLength(body)) };
  const posting = { url: new URL(url), headers, body: Buffer.from(body) };
  return await sender.send(posting, new AbortController().signal);
}

/** Posts to a target that leaves it without an answer; `reached` says when the time may pass. */
async function postInVain(
  sender: Sender & { readonly clock: HandClock },
  url: string,
  reached: () => Promise<void>,
  body?: Buffer,
): Promise<Answer | null> {
  let answer: Answer | null = null;
  const posted = post(sender, url, body).then((given) => (answer = given));
  await reached();
  sender.clock.advance(DEADLINE_MS - 1);
  await new Promise((resolve) => setImmediate(resolve));
  expect(answer).toBe(null);
  sender.clock.advance(1);
  return await posted;
}

verifies("webhook.success", "a 2xx is success, and body and headers arrive as they were given", async () => {
  const target = await WebhookTarget.open();
  const sender = testSender();
  const body = Buffer.from(Array.from({ length: 70_000 }, (_, place) => place % 256));
  expect(await post(sender, `${target.url}/hook?a=b`, body)).toEqual(ok);
  const [received] = target.received;
  expect(received).toMatchObject({ method: "POST", path: "/hook?a=b" });
  expect(received?.headers).toMatchObject({ "content-type": "application/json", "content-length": "70000" });
  expect(received?.body.equals(body)).toBe(true);
  for (const status of [200, 201, 202, 299]) {
    target.behave = (response) => response.writeHead(status).end("thanks");
    expect(await post(sender, target.url)).toEqual({ ...ok, status });
  }
});

verifies("webhook.redirect", "a 3xx is failure, and what it points to is not asked", async () => {
  const elsewhere = await WebhookTarget.open();
  const target = await WebhookTarget.open();
  const sender = testSender();
  for (const status of [300, 301, 302, 303, 304, 307, 308]) {
    target.behave = (response) => response.writeHead(status, { location: elsewhere.url }).end();
    expect(await post(sender, target.url)).toEqual({
      status,
      error: "redirect",
      retryAfterMs: null,
    });
  }
  expect(elsewhere.connections).toBe(0);
});

test("other answers are failures with their status and what they ask for", async () => {
  const target = await WebhookTarget.open(MODES[500]);
  const sender = testSender();
  const answers: unknown[] = [];
  for (const mode of ["500", "410", "429"] as const) {
    target.behave = MODES[mode];
    answers.push(await post(sender, target.url));
  }
  expect(answers).toEqual([
    { status: 500, error: "bad_status", retryAfterMs: null },
    { status: 410, error: "bad_status", retryAfterMs: null },
    { status: 429, error: "bad_status", retryAfterMs: 120_000 },
  ]);
});

test("an endless answer is read in part, then dropped", async () => {
  let sentBytes = 0;
  let isClosed = false;
  const target = await WebhookTarget.open((response) => {
    response.on("sent", (bytes: number) => (sentBytes += bytes));
    response.once("close", () => (isClosed = true));
    MODES.endless(response);
  });
  expect(await post(testSender(), target.url)).toEqual({ ...ok, status: 200 });
  await until("the connection ends", () => isClosed);
  // What the sockets between the two hold, not gigabytes.
  expect(sentBytes).toBeLessThan(32 * 1024 * 1024);
});

test("a connection that is broken off is a failure at once", async () => {
  const target = await WebhookTarget.open(MODES.reset);
  const answer = await post(testSender(), target.url);
  expect(answer).toEqual({ status: null, error: "connection_reset", retryAfterMs: null });
});

test("a target that says nothing, or that never ends what it says, costs 15 s and no more", async () => {
  const target = await WebhookTarget.open(MODES.hang);
  const sender = testSender();
  expect(await postInVain(sender, target.url, () => target.has(1))).toEqual(TIMED_OUT);
  target.behave = MODES.drip;
  const reached = () => until("the answer drips", () => target.drips >= 3);
  expect(await postInVain(sender, target.url, reached)).toEqual({ ...TIMED_OUT, status: 200 });
});

test("a target that takes connections and does not read, or drips its head, is no different", async () => {
  for (const first of ["", "HTTP/1.1 200 OK\r\nx: "]) {
    let steps = 0;
    const server = createTcpServer({ pauseOnConnect: true }, (socket) => {
      if (first !== "") socket.write(first);
      const timer = setInterval(() => (++steps, first === "" || socket.write("a")), 20);
      socket.on("close", () => clearInterval(timer)).on("error", () => {});
    });
    const sockets = new Set<Socket>();
    server.on("connection", (socket) => sockets.add(socket));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const reached = () => until("the connection stands for a while", () => steps >= 3);
    const body = Buffer.alloc(16 * 1024 * 1024);
    expect(await postInVain(testSender(), url, reached, body)).toEqual(TIMED_OUT);
  }
});

verifies("webhook.every-end", "an answer that turns to another protocol is a failure at once", async () => {
  const head = "HTTP/1.1 101 Switching Protocols\r\n";
  const upgrade = `${head}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
  const isOver: boolean[] = [];
  for (const answer of [upgrade, `${upgrade}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`, `${head}\r\n`]) {
    const server = createTcpServer((socket) => {
      const at = isOver.push(false) - 1;
      socket.on("close", () => (isOver[at] = true)).on("error", () => {});
      socket.once("data", () => socket.write(answer));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const refused = { status: 101, error: "bad_status", retryAfterMs: null };
    expect(await post(testSender(), url)).toEqual(refused);
  }
  await until("no connection is kept", () => isOver.length === 3 && isOver.every(Boolean));
});

test("each way to have no answer has its word", async () => {
  const target = await WebhookTarget.open();
  await target.down();
  let asked = 0;
  const silent: Resolve = () => {
    asked += 1;
    return new Promise(() => {});
  };
  const unknown: Resolve = () => Promise.reject(Object.assign(new Error("no"), { code: "ENOTFOUND" }));
  const nothing: Resolve = () => Promise.resolve([]);
  const url = "http://example.com/";
  const words = [
    (await post(testSender(), target.url))?.error,
    (await postInVain(testSender(silent), url, () => until("it is asked", () => asked === 1)))?.error,
    (await post(testSender(unknown), url))?.error,
    (await post(testSender(nothing), url))?.error,
  ];
  expect(words).toEqual(["connection_refused", "timed_out", "name_not_found", "name_not_found"]);
});

test("what is no TLS is no answer", async () => {
  const target = await WebhookTarget.open();
  const answer = await post(testSender(), target.url.replace("http:", "https:"));
  expect(answer?.status).toBe(null);
  expect(answer?.error).toMatch(/^tls_failed: /);
});

test("an attempt that is broken off from outside tells nothing", async () => {
  const target = await WebhookTarget.open(MODES.hang);
  const abort = new AbortController();
  const posting = { url: new URL(target.url), headers: {}, body: Buffer.from("{}") };
  const sending = testSender().send(posting, abort.signal);
  await target.has(1);
  abort.abort();
  expect(await sending).toBe(null);
});

test("connections are kept for the next attempt, and one that the target closed costs nothing", async () => {
  const target = await WebhookTarget.open();
  const sender = testSender();
  for (let i = 0; i < 5; i += 1) expect(await post(sender, target.url)).toEqual(ok);
  expect(target.connections).toBe(1);
  await target.down();
  await target.up();
  expect(await post(sender, target.url)).toEqual(ok);
  expect(target.received).toHaveLength(6);
});

test("a kept connection that dies under the request is replaced by a new one", async () => {
  // Answers the first request of each connection and breaks off at the second.
  const seen = new WeakSet<object>();
  let count = 0;
  const server = createServer((request, response) => {
    count += 1;
    if (seen.has(request.socket)) request.socket.resetAndDestroy();
    else response.writeHead(204).end();
    seen.add(request.socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const sender = testSender();
  expect(await post(sender, url)).toEqual(ok);
  expect(await post(sender, url)).toEqual(ok);
  expect(count).toBe(3);
});

test("proxies of the environment are not asked", async () => {
  const proxy = await WebhookTarget.open();
  const target = await WebhookTarget.open();
  for (const name of ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "NODE_USE_ENV_PROXY"]) {
    const before = process.env[name];
    process.env[name] = name === "NODE_USE_ENV_PROXY" ? "1" : proxy.url;
    onTestFinished(() => {
      if (before === undefined) delete process.env[name];
      else process.env[name] = before;
    });
  }
  expect(await post(testSender(), target.url)).toEqual(ok);
  expect([proxy.connections, target.connections]).toEqual([0, 1]);
});
