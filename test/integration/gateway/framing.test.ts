import { describe, expect, test } from "vitest";
import { type ErrorCode, ERRORS } from "../../../src/model/errors.ts";
import { RUN_ID } from "../../../src/model/names.ts";
import { NO_HOSTS } from "../../support/hosts.ts";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const COUNTER = `
calls = 0

def run(**members):
    global calls
    calls += 1
    return members

def count():
    return calls
`;

const service = sharedService({ app: { main: COUNTER, toml: "[scaling]\nmax_replicas = 1\n" } });

/** Path and the headers of a call that is right, to be spoilt. */
function parts() {
  const { apiUrl, owner } = service().service;
  return {
    path: `/v4/${owner.projectId}/app/run`,
    host: `Host: ${new URL(apiUrl).host}`,
    auth: `Authorization: Bearer ${owner.token}`,
    json: "Content-Type: application/json",
  };
}

function post(headers: readonly string[], body = ""): string {
  const { path, host, auth, json } = parts();
  return rawRequest(`POST ${path} HTTP/1.1`, [host, auth, json, ...headers], body);
}

async function countRuns(): Promise<number> {
  const { json } = await service().call("app", {}, { functionName: "count" });
  return json.result as number;
}

function target(path: string, method = "POST"): string {
  const { host, auth } = parts();
  return rawRequest(`${method} ${path} HTTP/1.1`, [host, auth]);
}

function chunked(body: string): string {
  return post(["Transfer-Encoding: chunked"], body);
}

/** Sends the bytes on a new connection and waits for its end: what was answered, and how many runs it made. */
async function exchange(bytes: string | Buffer): Promise<{ statuses: number[]; runs: number }> {
  const before = await countRuns();
  await using connection = await RawConnection.open(service().service.apiUrl);
  connection.send(bytes);
  await connection.closed();
  for (const { status, headers, body } of connection.answers) {
    if (status === 200) continue;
    expect(headers).toMatchObject({ connection: "close", "content-type": "application/json" });
    expect(headers["x-request-id"]).toMatch(RUN_ID);
    expect(JSON.parse(body)).toMatchObject({ request_id: headers["x-request-id"] });
    expect(ERRORS[(JSON.parse(body) as { code: ErrorCode }).code].status).toBe(status);
  }
  expect(connection.rest).toBe("");
  const statuses = connection.answers.map(({ status }) => status);
  return { statuses, runs: (await countRuns()) - before };
}

const LONG = "a".repeat(20_000);

type Spoilt = readonly [row: number, title: string, status: number, bytes: () => string | Buffer];

/** The rows that end the connection: what follows on it could be anybody's. */
const REFUSED: readonly Spoilt[] = [
  [
    1,
    "a length and a transfer encoding",
    400,
    () => post(["Content-Length: 2", "Transfer-Encoding: chunked"], "0\r\n\r\n"),
  ],
  [
    1,
    "a transfer encoding and a length",
    400,
    () => post(["Transfer-Encoding: chunked", "Content-Length: 2"], "0\r\n\r\n"),
  ],
  [2, "two different lengths", 400, () => post(["Content-Length: 2", "Content-Length: 3"], "{}")],
  [3, "two equal lengths", 400, () => post(["Content-Length: 2", "Content-Length: 2"], "{}")],
  [3, "a list of equal lengths", 400, () => post(["Content-Length: 2, 2"], "{}")],
  [4, "a length with a plus", 400, () => post(["Content-Length: +2"], "{}")],
  [4, "a negative length", 400, () => post(["Content-Length: -1"], "{}")],
  [4, "a length of 20 digits", 400, () => post(["Content-Length: 99999999999999999999"], "{}")],
  [4, "a length in hexadecimal", 400, () => post(["Content-Length: 0x2"], "{}")],
  [4, "an empty length", 400, () => post(["Content-Length: "], "{}")],
  [
    5,
    "chunked before identity",
    400,
    () => post(["Transfer-Encoding: chunked, identity"], "2\r\n{}\r\n0\r\n\r\n"),
  ],
  [
    5,
    "an unknown transfer encoding",
    400,
    () => post(["Transfer-Encoding: xchunked"], "2\r\n{}\r\n0\r\n\r\n"),
  ],
  ...["identity, chunked", "gzip, chunked", "chunked, chunked"].map((encoding): Spoilt => [
    5,
    `the transfer encoding ${encoding}`,
    400,
    () => post([`Transfer-Encoding: ${encoding}`], "2\r\n{}\r\n0\r\n\r\n"),
  ]),
  [
    5,
    "identity and chunked in two headers",
    400,
    () => post(["Transfer-Encoding: identity", "Transfer-Encoding: chunked"], "2\r\n{}\r\n0\r\n\r\n"),
  ],
  [5, "chunks in HTTP/1.0", 400, () => chunked("2\r\n{}\r\n0\r\n\r\n").replace("HTTP/1.1", "HTTP/1.0")],
  [5, "identity alone", 400, () => post(["Transfer-Encoding: identity"], "{}")],
  [6, "a space before the colon", 400, () => post(["X-A : b"])],
  [6, "a folded header", 400, () => post(["X-A: b\r\n c"])],
  [6, "a header that ends with a bare LF", 400, () => post(["X-A: b\nX-B: c"])],
  [6, "a bare CR in a header", 400, () => post(["X-A: b\rX-B: c"])],
  [6, "a NUL in a header", 400, () => post(["X-A: b\0c"])],
  [7, "a chunk size with a prefix", 400, () => chunked("0x2\r\n{}\r\n0\r\n\r\n")],
  [7, "a chunk size that overflows", 400, () => chunked("fffffffffffffffff\r\n{}\r\n0\r\n\r\n")],
  [7, "chunks that end with a bare LF", 400, () => chunked("2\n{}\n0\n\n")],
  [7, "a chunk longer than it says", 400, () => chunked("1\r\n{}\r\n0\r\n\r\n")],
  [8, "a chunk extension of 20 KB", 413, () => chunked(`2;${LONG}\r\n{}\r\n0\r\n\r\n`)],
  [10, "no Host", 400, () => rawRequest(`POST ${parts().path} HTTP/1.1`, [parts().auth])],
  [13, "HTTP/0.9", 400, () => "GET /\r\n\r\n"],
  [
    13,
    "a version that does not exist",
    400,
    () => rawRequest(`POST ${parts().path} HTTP/3.7`, [parts().host]),
  ],
  [18, "headers over 16 KiB", 431, () => post([`X-A: ${LONG}`])],
  [24, "the preface of HTTP/2", 400, () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
  [24, "the hello of TLS", 400, () => Buffer.from("16030100c8010000c40303", "hex")],
  [
    26,
    "a raw byte beyond ASCII in the path",
    400,
    () => rawRequest(`POST ${parts().path}/\u00e9 HTTP/1.1`, [parts().host]),
  ],
  [
    26,
    "a raw control byte in the path",
    400,
    () => rawRequest(`POST ${parts().path}/\u0001 HTTP/1.1`, [parts().host]),
  ],
  [9, "two Host headers", 400, () => post(["Host: evil.example", "Content-Length: 2"], "{}")],
  [11, "a target with a scheme and a host", 400, () => target(`http://evil.example${parts().path}`)],
  [11, "a target that is a star", 400, () => target("*")],
  [12, "a target that begins with two slashes", 404, () => target(`//evil.example${parts().path}`)],
  [17, "an Expect nobody knows", 417, () => post(["Expect: nonsense", "Content-Length: 2"], "{}")],
  [19, "1,500 small headers", 431, () => post(Array.from({ length: 1500 }, () => "a: b"))],
  [19, "101 headers", 431, () => post(Array.from({ length: 98 }, () => "a: b"))],
  [65, "a target of 9,000 characters", 414, () => target(`${parts().path}?${"a".repeat(9000)}`)],
];

describe("a request that cannot be framed is refused, closes its connection and runs nothing", () => {
  for (const [row, title, status, bytes] of REFUSED) {
    verifies("hardening.framing", `${row}: ${title}`, async () => {
      expect(await exchange(bytes())).toEqual({ statuses: [status], runs: 0 });
    });
  }

  for (const host of NO_HOSTS) {
    verifies("hardening.host", `the Host ${JSON.stringify(host)}`, async () => {
      const bytes = post(["Content-Length: 2"], "{}").replace(/^Host:.*\r\n/m, () => `Host: ${host}\r\n`);
      expect(await exchange(bytes)).toEqual({ statuses: [400], runs: 0 });
    });
  }

  test("25: what was pipelined behind such a request is not looked at", async () => {
    const good = post(["Content-Length: 2"], "{}");
    for (const bad of [
      post(["Content-Length: +2"], "{}"),
      post(["Host: evil.example", "Content-Length: 2"], "{}"),
      post(["Transfer-Encoding: identity, chunked"], "2\r\n{}\r\n0\r\n\r\n"),
      target("http://evil.example/"),
    ]) {
      expect(await exchange(good + bad + good)).toEqual({ statuses: [200, 400], runs: 1 });
    }
    const odd = post(["Expect: nonsense", "Content-Length: 2"], "{}");
    expect(await exchange(good + odd + good)).toEqual({ statuses: [200, 417], runs: 1 });
  });

  test("15: CONNECT is closed without a word", async () => {
    const bytes = rawRequest("CONNECT example.com:443 HTTP/1.1", [parts().host]);
    expect(await exchange(bytes)).toEqual({ statuses: [], runs: 0 });
  });
});

/** The rows with a good head: the connection lives on. */
const ANSWERED: readonly Spoilt[] = [
  [64, "an unknown route", 404, () => target("/v4/nothing")],
  [112, "no token", 401, () => post(["Content-Length: 2"], "{}").replace(/^Authorization.*\r\n/m, "")],
  [
    56,
    "another media type",
    415,
    () => post(["Content-Length: 2"], "{}").replace("application/json", "text/plain"),
  ],
  [32, "a body that is not JSON", 400, () => post(["Content-Length: 2"], "{!")],
  [14, "TRACE", 405, () => target(parts().path, "TRACE")],
  [30, "HEAD", 405, () => target(parts().path, "HEAD")],
  [30, "GET", 405, () => target(parts().path, "GET")],
  [30, "PUT", 405, () => target(parts().path, "PUT")],
  [30, "DELETE", 405, () => target(parts().path, "DELETE")],
  [30, "PATCH", 405, () => target(parts().path, "PATCH")],
];

describe("a request that is framed well and refused leaves its connection open", () => {
  for (const [row, title, status, bytes] of ANSWERED) {
    test(`${row}: ${title}`, async () => {
      const before = await countRuns();
      await using connection = await RawConnection.open(service().service.apiUrl);
      connection.isBodyless = title === "HEAD";
      connection.send(bytes());
      const refused = await connection.answer();
      expect(refused.status).toBe(status);
      expect(refused.headers["x-request-id"]).toMatch(RUN_ID);
      expect(refused.headers["allow"]).toBe(status === 405 ? "POST" : undefined);
      connection.isBodyless = false;
      connection.send(post(["Content-Length: 7"], '{"a":1}'));
      expect(await connection.answer(1)).toMatchObject({ status: 200 });
      expect(await countRuns()).toBe(before + 1);
    });
  }
});

describe("a request that is right although it looks odd", () => {
  const RIGHT: readonly Spoilt[] = [
    [16, "Upgrade: websocket is ignored", 200, () => post(["Connection: Upgrade", "Upgrade: websocket"])],
    [13, "HTTP/1.0 closes after its answer", 200, () => post([]).replace("HTTP/1.1", "HTTP/1.0")],
    [19, "100 headers", 200, () => post(Array.from({ length: 97 }, () => "a: b"))],
    [7, "a chunk extension and a trailer", 200, () => chunked("2;a=b\r\n{}\r\n0\r\nX-A: b\r\n\r\n")],
    [7, "one byte in each chunk", 200, () => chunked("1\r\n{\r\n1\r\n}\r\n0\r\n\r\n")],
  ];
  for (const [row, title, status, bytes] of RIGHT) {
    test(`${row}: ${title}`, async () => {
      await using connection = await RawConnection.open(service().service.apiUrl);
      connection.send(bytes());
      expect(await connection.answer()).toMatchObject({ status });
    });
  }

  test("28, 29: a caller's own request id and forwarded address are taken from nobody", async () => {
    const forged = "01900000-0000-7000-8000-000000000000";
    await using connection = await RawConnection.open(service().service.apiUrl);
    connection.send(
      post([`X-Request-Id: ${forged}`, "X-Forwarded-For: 203.0.113.9", "Forwarded: for=203.0.113.9"]),
    );
    const { headers } = await connection.answer();
    const id = headers["x-request-id"] ?? "";
    expect(id).not.toBe(forged);
    await service().service.settle();
    const appNumber = service().apps.get("app")?.app.number ?? 0;
    const run = await service().service.store.runs.find({ appNumber, id });
    expect(run?.ip).toMatch(/127\.0\.0\.1$/);
  });

  test("27: a header reflected to a browser cannot carry a line of its own", async () => {
    await using connection = await RawConnection.open(service().service.apiUrl);
    const { path, host } = parts();
    const asked = "Access-Control-Request-Headers: x-a\u00ff\t, x-b";
    const preflight = ["Origin: https://a.example", "Access-Control-Request-Method: POST", asked];
    connection.send(rawRequest(`OPTIONS ${path} HTTP/1.1`, [host, ...preflight]));
    const answer = await connection.answer();
    expect(answer.status).toBe(204);
    expect(Object.keys(answer.headers)).not.toContain("x-b");
  });
});
