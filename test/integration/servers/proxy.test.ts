import { createHash, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { sharedService } from "../../support/shared-service.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const WIDE = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 8\n";

const site = sharedService({
  web: serverApp({ toml: WIDE }),
  open: serverApp({
    runtime: "pass_authorization = true",
    toml: `${WIDE}[deployment]\ndisable_auth = true\n[limits]\nmax_body = "1MiB"\n`,
  }),
  narrow: serverApp({ toml: "[scaling]\nmax_replicas = 1\nreplica_concurrency = 1\nmax_queue = 1\n" }),
});

const auth = (): string => `Bearer ${site().service.owner.token}`;

type Echo = {
  readonly method: string;
  readonly path: string;
  readonly headers: [string, string][];
  readonly bytes: number;
  readonly body: string;
};

type EchoOptions = {
  readonly method?: string;
  readonly body?: string | null;
  readonly headers?: Record<string, string>;
};

async function echo(target: string, init: EchoOptions = {}, app = "web"): Promise<Echo> {
  const response = await fetch(site().url(app, target), {
    ...init,
    headers: { authorization: auth(), ...init.headers },
  });
  expect(response.status).toBe(200);
  return (await response.json()) as Echo;
}

function pathOf(app: string, target: string): string {
  const { pathname, search } = new URL(site().url(app, target));
  return pathname + search;
}

/** Every value of a header that the app got. */
function got({ headers }: Echo, name: string): string[] {
  return headers.filter(([key]) => key.toLowerCase() === name).map(([, value]) => value);
}

describe("requests", () => {
  verifies("servers.request", "every method, path, query and body arrives as it came", async () => {
    for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
      const body = method === "GET" || method === "OPTIONS" ? null : "\u0000\u00ff not json";
      const target = `v1/things/7?a=%2F&b=1+2&b=3${method === "POST" ? "" : "&async=maybe"}`;
      const seen = await echo(target, { method, body, headers: { "content-type": "text/weird" } });
      expect(seen.method).toBe(method);
      expect(seen.path).toBe(`/${target}`);
      expect(Buffer.from(seen.body, "latin1").toString()).toBe(body ?? "");
    }
    for (const target of [
      "",
      "?q",
      "/",
      "openapi.json",
      "runs",
      "runs/7",
      "_private",
      "a//b/../c",
      "%2e%2e/%ff",
    ]) {
      const connection = await RawConnection.open(site().service.apiUrl);
      const base = pathOf("web", "").replace(/\/$/, "");
      const target1 = target.startsWith("?") || target === "" ? target : `/${target.replace(/^\//, "")}`;
      connection.send(rawRequest(`GET ${base}${target1} HTTP/1.1`, ["Host: x", `Authorization: ${auth()}`]));
      const { status, body } = await connection.answer();
      await connection[Symbol.asyncDispose]();
      expect(status).toBe(200);
      expect((JSON.parse(body) as Echo).path).toBe(target1.startsWith("/") ? target1 : `/${target1}`);
    }
  });

  verifies("servers.request", "a run's own addresses stay the service's", async () => {
    const response = await fetch(site().url("web", "echo"), { headers: { authorization: auth() } });
    const runId = response.headers.get("x-request-id") ?? "";
    await response.text();
    const record = await site().ofRun("web", runId);
    expect(record.json).toMatchObject({ id: runId, functionName: "/echo", method: "GET" });
    const nobody = await fetch(site().url("web", "echo"));
    expect(nobody.status).toBe(401);
    const missing = await fetch(site().url("nothing", "a/b-c"), { headers: { authorization: auth() } });
    expect(missing.status).toBe(404);
  });

  verifies("servers.headers", "what the app gets, and what it does not", async () => {
    const seen = await echo("echo", {
      headers: {
        cookie: "a=1; millrace_refresh=secret; b=2",
        "x-forwarded-for": "6.6.6.6",
        "x-forwarded-proto": "https",
        forwarded: "for=6.6.6.6",
        "x-request-id": "mine",
        "x-webhook-secret": "whsec",
        "proxy-authorization": "Basic x",
        "x-own": "kept",
      },
    });
    expect(got(seen, "cookie")).toEqual(["a=1; b=2"]);
    expect(got(seen, "x-forwarded-for")).toEqual(["127.0.0.1"]);
    expect(got(seen, "x-forwarded-proto")).toEqual(["http"]);
    expect(got(seen, "x-forwarded-prefix")).toEqual([pathOf("web", "").replace(/\/$/, "")]);
    expect(got(seen, "x-own")).toEqual(["kept"]);
    for (const name of ["authorization", "forwarded", "x-webhook-secret", "proxy-authorization"])
      expect(got(seen, name)).toEqual([]);
    expect(got(seen, "x-request-id")).toHaveLength(1);
    expect(got(seen, "x-request-id")).not.toEqual(["mine"]);
    expect(got(await echo("echo", {}, "open"), "authorization")).toEqual([auth()]);
  });

  verifies("servers.headers", "hop-by-hop headers go no further, in either direction", async () => {
    await using connection = await RawConnection.open(site().service.apiUrl);
    connection.send(
      rawRequest(`GET ${pathOf("web", "echo")} HTTP/1.1`, [
        "Host: x",
        `Authorization: ${auth()}`,
        "Connection: keep-alive, X-Mine",
        "X-Mine: 1",
        "Keep-Alive: timeout=9",
        "TE: trailers",
      ]),
    );
    const seen = JSON.parse((await connection.answer()).body) as Echo;
    for (const name of ["connection", "x-mine", "keep-alive", "te"]) expect(got(seen, name)).toEqual([]);
    connection.send(
      rawRequest(`GET ${pathOf("web", "cookies")} HTTP/1.1`, ["Host: x", `Authorization: ${auth()}`]),
    );
    const { headers } = await connection.answer(1);
    expect(headers["set-cookie"]).toBe("mine=1");
    expect(headers["x-hop"]).toBeUndefined();
    expect(headers["x-kept"]).toBe("2");
    expect(headers["x-request-id"]).toMatch(/^[0-9a-f-]{36}$/);
    expect(headers["server-timing"]).toMatch(/^queue;dur=.*start;dur=/);
  });

  test("pages of other origins may call, and a preflight needs no token", async () => {
    const preflight = await fetch(site().url("web", "a/b-c"), {
      method: "OPTIONS",
      headers: { origin: "https://x.example", "access-control-request-method": "PUT" },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get("access-control-allow-methods")).toContain("PUT");
    const response = await fetch(site().url("web", "echo"), {
      headers: { origin: "https://x.example", authorization: auth() },
    });
    await response.text();
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    // A server's own headers, too.
    expect(response.headers.get("access-control-expose-headers")?.split(", ")).toContain("*");
  });
});

describe("HTTP", () => {
  verifies("servers.http", "HTTP/1.0, HEAD, pipelined requests and Expect: 100-continue", async () => {
    const lines = ["Host: x", `Authorization: ${auth()}`];
    await using old = await RawConnection.open(site().service.apiUrl);
    old.send(rawRequest(`GET ${pathOf("web", "stream")} HTTP/1.0`, lines));
    await old.closed();
    expect(old.rest + old.answers.map(({ body }) => body).join("")).toContain("data: 2");

    const head = await fetch(site().url("web", "echo"), {
      method: "HEAD",
      headers: { authorization: auth() },
    });
    expect(head.status).toBe(200);
    expect(Number(head.headers.get("content-length"))).toBeGreaterThan(10);

    await using pipelined = await RawConnection.open(site().service.apiUrl);
    const three = ["a", "b", "c"].map((name) =>
      rawRequest(`GET ${pathOf("web", `echo?${name}`)} HTTP/1.1`, lines),
    );
    pipelined.send(three.join(""));
    for (const [place, name] of ["a", "b", "c"].entries())
      expect(JSON.parse((await pipelined.answer(place)).body)).toMatchObject({ path: `/echo?${name}` });

    for (const size of [10, 100_000]) {
      await using held = await RawConnection.open(site().service.apiUrl);
      held.send(
        rawRequest(`POST ${pathOf("web", "echo")} HTTP/1.1`, [
          ...lines,
          `Content-Length: ${size}`,
          "Expect: 100-continue",
        ]),
      );
      expect((await held.answer(0)).status).toBe(100);
      held.send("x".repeat(size));
      expect(JSON.parse((await held.answer(1)).body)).toMatchObject({ bytes: size });
    }
  });

  verifies(
    "servers.streaming",
    "large bodies pass whole in both directions, and trailers come last",
    async () => {
      const body = randomBytes(20 * 1024 * 1024);
      const response = await fetch(site().url("web", "hash"), {
        method: "POST",
        body,
        headers: { authorization: auth() },
      });
      expect(await response.text()).toBe(createHash("sha256").update(body).digest("hex"));
      const download = await fetch(site().url("web", `bytes?count=${body.length}`), {
        headers: { authorization: auth() },
      });
      expect((await download.arrayBuffer()).byteLength).toBe(body.length);
      const trailers = await new Promise<Record<string, string | undefined>>((resolve, reject) => {
        const request = httpRequest(site().url("web", "stream"), { headers: { authorization: auth() } });
        request.on("response", (message) => {
          message.resume();
          message.on("end", () => resolve(message.trailers));
        });
        request.on("error", reject);
        request.end();
      });
      expect(trailers).toEqual({ "x-sum": "42" });
    },
  );

  verifies("servers.streaming", "a body of unknown length is sent on in chunks", async () => {
    await using connection = await RawConnection.open(site().service.apiUrl);
    connection.send(
      rawRequest(`POST ${pathOf("web", "echo")} HTTP/1.1`, [
        "Host: x",
        `Authorization: ${auth()}`,
        "Transfer-Encoding: chunked",
      ]),
    );
    connection.send("5\r\nhello\r\n");
    connection.send("6\r\n world\r\n0\r\n\r\n");
    const seen = JSON.parse((await connection.answer()).body) as Echo;
    expect(seen.body).toBe("hello world");
    expect(got(seen, "transfer-encoding")).toEqual(["chunked"]);
  });

  verifies("servers.streaming", "a server sends no faster than its caller reads", async () => {
    const count = 200 * 1024 * 1024;
    const { logs } = site();
    const sent = (): number =>
      Math.max(
        0,
        ...logs.filter(({ text }) => text.startsWith("sent ")).map(({ text }) => Number(text.slice(5))),
      );
    const earlier = logs.length;
    await using connection = await RawConnection.open(site().service.apiUrl);
    connection.socket.pause();
    connection.send(
      rawRequest(`GET ${pathOf("web", `bytes?count=${count}`)} HTTP/1.1`, [
        "Host: x",
        `Authorization: ${auth()}`,
      ]),
    );
    await until("the server has begun", () => logs.length > earlier && sent() > 1024 * 1024);
    for (let i = 0; i < 100; i++) await echo("echo");
    expect(sent()).toBeLessThan(count / 2);
  });
});

describe("limits", () => {
  verifies("servers.limits", "a body over max_body is refused, by its length and by its bytes", async () => {
    const { url } = { url: pathOf("open", "echo") };
    await using told = await RawConnection.open(site().service.apiUrl);
    told.send(rawRequest(`POST ${url} HTTP/1.1`, ["Host: x", "Content-Length: 2000000"]));
    expect((await told.answer()).status).toBe(413);
    await using untold = await RawConnection.open(site().service.apiUrl);
    untold.send(rawRequest(`POST ${url} HTTP/1.1`, ["Host: x", "Transfer-Encoding: chunked"]));
    const piece = "x".repeat(0x10000);
    for (let i = 0; i < 20; i++) untold.send(`10000\r\n${piece}\r\n`);
    expect((await untold.answer()).status).toBe(413);
  });

  verifies("servers.limits", "a replica holds no more calls than replica_concurrency says", async () => {
    const go = path.join(site().bundleDir("narrow"), "go-on");
    const slow = site().call("narrow", {}, { functionName: "slow", suffix: "?until=go-on" });
    await until("the first call runs", () => site().logs.some(({ text }) => text === "slow has begun"));
    const waiting = site().call("narrow", {}, { functionName: "echo" });
    await until("the second call waits", () => site().apps.get("narrow")?.pool.slots.waiting === 1);
    const refused = await site().call("narrow", {}, { functionName: "echo" });
    expect(refused).toMatchObject({ status: 503, json: { code: "queue_full" } });
    writeFileSync(go, "");
    expect((await slow).json).toEqual({ slow: true });
    expect((await waiting).status).toBe(200);
  });
});
