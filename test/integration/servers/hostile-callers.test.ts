import { describe, expect } from "vitest";
import { readFileSync } from "node:fs";
import path from "node:path";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { sharedService } from "../../support/shared-service.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const PLAIN = readFileSync(path.join(import.meta.dirname, "../../support/servers/hostile.py"), "utf8");
const runtime = 'entrypoint = ["python", "main.py"]';
const scaling = (places: number): string => `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${places}\n`;

/** A request has little time to arrive. */
const site = sharedService(
  {
    plain: serverApp({ runtime, toml: scaling(8) }, PLAIN),
    narrow: serverApp({ runtime, toml: scaling(1) }, PLAIN),
  },
  { bodyTimeout: "1s" },
);

async function send(
  line: (target: string) => string,
  target: string,
  headers: readonly string[],
  body = "",
): Promise<RawConnection> {
  const [app = "", name = ""] = target.split("/");
  const { pathname } = new URL(site().url(app, name));
  const connection = await RawConnection.open(site().service.apiUrl);
  const own = ["Host: x", `Authorization: Bearer ${site().service.owner.token}`, ...headers];
  connection.send(rawRequest(`${line(pathname)} HTTP/1.1`, own, body));
  return connection;
}

const post = (target: string): string => `POST ${target}`;
const get = (target: string): string => `GET ${target}`;
const HANDSHAKE = [
  "Connection: Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Version: 13",
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];
const narrow = () => site().apps.get("narrow")?.pool;
const held = (): number => [...(narrow()?.replicas ?? [])].reduce((sum, { calls }) => sum + calls.size, 0);

describe("a place that nobody uses is free again", () => {
  verifies("servers.cancel", "when the rest of a body does not come in time", async () => {
    await using slow = await send(post, "narrow/silent", ["Content-Length: 100000"], "x");
    expect((await slow.answer()).status).toBe(408);
    await using next = await send(get, "narrow/ok", []);
    expect((await next.answer()).status).toBe(200);
  });

  verifies("servers.cancel", "when the rest of a body is malformed", async () => {
    await using bad = await send(post, "narrow/silent", ["Transfer-Encoding: chunked"], "1\r\nx\r\n");
    await until("the server has it", () => held() === 1);
    bad.send("zz\r\n");
    expect((await bad.answer()).status).toBe(400);
    await until("it is free", () => held() === 0);
  });

  verifies("servers.sockets.waiting", "when a caller leaves whose handshake is in the queue", async () => {
    await using first = await send(get, "narrow/silent", []);
    await until("it has the place", () => held() === 1);
    const second = await send(get, "narrow/silent", HANDSHAKE);
    await until("it waits", () => narrow()?.slots.waiting === 1);
    // Not a reset, which is noticed in any case.
    second.socket.end();
    await until("it waits no longer", () => narrow()?.slots.waiting === 0);
    first.socket.destroy();
  });

  verifies("servers.sockets.waiting", "or is in the hands of an app that does not answer", async () => {
    const only = await send(get, "narrow/silent", HANDSHAKE);
    await until("it has the place", () => held() === 1);
    only.socket.end();
    await using next = await send(get, "narrow/ok", []);
    expect((await next.answer()).status).toBe(200);
  });
});

verifies("servers.headers", "no caller forges what the service sets, in trailers either", async () => {
  const trailers = [
    "X-Forwarded-For: 6.6.6.6",
    "x_forwarded_host: evil",
    "X-Request-Id: forged",
    "Authorization: Bearer forged",
    "Cookie: millrace_x=forged",
    "X-Sum: 1",
  ];
  const body = `2\r\nok\r\n0\r\n${trailers.join("\r\n")}\r\n\r\n`;
  await using connection = await send(post, "plain/told", ["Transfer-Encoding: chunked"], body);
  const { body: told } = await connection.answer();
  expect(told).toContain("0\r\nX-Sum: 1\r\n\r\n");
  expect(told).not.toMatch(/6\.6\.6\.6|evil|forged/);
});

verifies("servers.headers", "what any of its Connection headers names stays here", async () => {
  const headers = ["Connection: keep-alive", "X-One: kept", "X-Two: gone", "Connection: X-Two, X-Three"];
  await using connection = await send(get, "plain/told", [...headers, "X-Three: gone"]);
  const { body: told } = await connection.answer();
  expect(told).toContain("X-One: kept");
  expect(told).not.toContain("gone");
});

verifies("servers.sockets.token", "a token among subprotocols stays here in any request", async () => {
  const offered = [
    "Sec-WebSocket-Protocol: chat, millrace.bearer.secret",
    "Sec-WebSocket-Protocol: millrace",
  ];
  await using connection = await send(get, "plain/told", offered);
  const { body: told } = await connection.answer();
  expect(told).toMatch(/Sec-WebSocket-Protocol: chat\r\n/);
  expect(told).not.toMatch(/secret|millrace\r\n/);
});
