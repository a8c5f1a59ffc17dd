import { describe, expect, test } from "vitest";
import { type ErrorCode, ERRORS } from "../../../src/model/errors.ts";
import { RUN_ID } from "../../../src/model/names.ts";
import { NO_HOSTS } from "../../support/hosts.ts";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const service = sharedService();
const BODY = '{"name":"framed"}';
const LENGTH = `Content-Length: ${BODY.length}`;
const LONG = "a".repeat(20_000);

/** Path and the headers of a request that is right, to be spoilt: it makes a service account. */
function parts() {
  const { baseUrl, owner } = service().service;
  return {
    path: `/v2/projects/${owner.projectId}/service-accounts`,
    host: `Host: ${new URL(baseUrl).host}`,
    auth: `Authorization: Bearer ${owner.token}`,
    json: "Content-Type: application/json",
  };
}

function post(headers: readonly string[], body = ""): string {
  const { path, host, auth, json } = parts();
  return rawRequest(`POST ${path} HTTP/1.1`, [host, auth, json, ...headers], body);
}

function chunked(body: string, header = "Transfer-Encoding: chunked"): string {
  return post([header], body);
}

function target(path: string, method = "GET"): string {
  return rawRequest(`${method} ${path} HTTP/1.1`, [parts().host, parts().auth]);
}

const CHUNKS = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`;

async function countAccounts(): Promise<number> {
  return (await service().service.store.accounts.list(service().service.owner.projectId)).length;
}

/** Sends the bytes on a new connection and waits for its end: what was answered, and how much of it was done. */
async function exchange(bytes: string | Buffer): Promise<{ statuses: number[]; made: number }> {
  const before = await countAccounts();
  await using connection = await RawConnection.open(service().service.baseUrl);
  connection.send(bytes);
  await connection.closed();
  for (const { status, headers, body } of connection.answers) {
    if (status === 200) continue;
    expect(headers).toMatchObject({ connection: "close" });
    expect(headers["content-type"]).toMatch(/^application\/json/);
    expect(headers["x-request-id"]).toMatch(RUN_ID);
    expect(JSON.parse(body)).toMatchObject({ request_id: headers["x-request-id"] });
    expect(ERRORS[(JSON.parse(body) as { code: ErrorCode }).code].status).toBe(status);
  }
  expect(connection.rest).toBe("");
  const statuses = connection.answers.map(({ status }) => status);
  return { statuses, made: (await countAccounts()) - before };
}

type Spoilt = readonly [title: string, status: number, bytes: () => string | Buffer];

/** What ends the connection: what follows on it could be anybody's. */
const REFUSED: readonly Spoilt[] = [
  ["a length and a transfer encoding", 400, () => post([LENGTH, "Transfer-Encoding: chunked"], CHUNKS)],
  ["a transfer encoding and a length", 400, () => post(["Transfer-Encoding: chunked", LENGTH], CHUNKS)],
  ["two different lengths", 400, () => post([LENGTH, "Content-Length: 3"], BODY)],
  ["two equal lengths", 400, () => post([LENGTH, LENGTH], BODY)],
  ["a list of equal lengths", 400, () => post([`${LENGTH}, ${BODY.length}`], BODY)],
  ["a length with a plus", 400, () => post([LENGTH.replace(": ", ": +")], BODY)],
  ["a negative length", 400, () => post(["Content-Length: -1"], BODY)],
  ["a length of 20 digits", 400, () => post(["Content-Length: 99999999999999999999"], BODY)],
  ["a length in hexadecimal", 400, () => post(["Content-Length: 0x11"], BODY)],
  ["an empty length", 400, () => post(["Content-Length: "], BODY)],
  ["chunked before identity", 400, () => chunked(CHUNKS, "Transfer-Encoding: chunked, identity")],
  ["identity before chunked", 400, () => chunked(CHUNKS, "Transfer-Encoding: identity, chunked")],
  [
    "identity and chunked in two headers",
    400,
    () => post(["Transfer-Encoding: identity", "Transfer-Encoding: chunked"], CHUNKS),
  ],
  [
    "chunked twice in two headers",
    400,
    () => post(["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], CHUNKS),
  ],
  ["chunked twice", 400, () => chunked(CHUNKS, "Transfer-Encoding: chunked, chunked")],
  ["gzip before chunked", 400, () => chunked(CHUNKS, "Transfer-Encoding: gzip, chunked")],
  ["an unknown transfer encoding", 400, () => chunked(CHUNKS, "Transfer-Encoding: xchunked")],
  ["identity alone", 400, () => chunked(BODY, "Transfer-Encoding: identity")],
  ["chunks in HTTP/1.0", 400, () => chunked(CHUNKS).replace("HTTP/1.1", "HTTP/1.0")],
  ["a space before the colon", 400, () => post(["X-A : b"])],
  ["a folded header", 400, () => post(["X-A: b\r\n c"])],
  ["a header that ends with a bare LF", 400, () => post(["X-A: b\nX-B: c"])],
  ["a bare CR in a header", 400, () => post(["X-A: b\rX-B: c"])],
  ["a NUL in a header", 400, () => post(["X-A: b\0c"])],
  ["a chunk size with a prefix", 400, () => chunked(`0x${CHUNKS}`)],
  ["a chunk size that overflows", 400, () => chunked("fffffffffffffffff\r\n{}\r\n0\r\n\r\n")],
  ["chunks that end with a bare LF", 400, () => chunked(CHUNKS.replaceAll("\r\n", "\n"))],
  ["a chunk longer than it says", 400, () => chunked("1\r\n{}\r\n0\r\n\r\n")],
  ["a chunk extension of 20 KB", 413, () => chunked(CHUNKS.replace("\r\n", `;${LONG}\r\n`))],
  ["no Host", 400, () => rawRequest(`POST ${parts().path} HTTP/1.1`, [parts().auth, LENGTH], BODY)],
  ["two Host headers", 400, () => post(["Host: evil.example", LENGTH], BODY)],
  ["two equal Host headers", 400, () => post([parts().host, LENGTH], BODY)],
  ["two Authorization headers", 400, () => post([parts().auth, LENGTH], BODY)],
  ["two Content-Type headers", 400, () => post([parts().json, LENGTH], BODY)],
  ["HTTP/0.9", 400, () => "GET /\r\n\r\n"],
  ["a version that does not exist", 400, () => rawRequest(`POST ${parts().path} HTTP/3.7`, [parts().host])],
  ["headers over 16 KiB", 431, () => post([`X-A: ${LONG}`])],
  ["1,500 small headers", 431, () => post(Array.from({ length: 1500 }, () => "a: b"))],
  [
    "a second Host behind 2,100 headers",
    431,
    () => post([...Array.from({ length: 2100 }, () => "a: b"), "Host: b"]),
  ],
  ["101 headers", 431, () => post(Array.from({ length: 98 }, () => "a: b"))],
  ["the preface of HTTP/2", 400, () => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
  ["the hello of TLS", 400, () => Buffer.from("16030100c8010000c40303", "hex")],
  ["a raw byte beyond ASCII in the path", 400, () => rawRequest("GET /\u00e9 HTTP/1.1", [parts().host])],
  ["a raw control byte in the path", 400, () => rawRequest("GET /\u0001 HTTP/1.1", [parts().host])],
  ["a target with a scheme and a host", 400, () => target("http://evil.example/livez")],
  ["a target that is a star", 400, () => target("*", "OPTIONS")],
  ["an Expect nobody knows", 417, () => post(["Expect: nonsense", LENGTH], BODY)],
];

describe("a request that cannot be framed is refused, closes its connection and does nothing", () => {
  for (const [title, status, bytes] of REFUSED) {
    verifies("hardening.framing", title, async () => {
      expect(await exchange(bytes())).toEqual({ statuses: [status], made: 0 });
    });
  }

  verifies("hardening.framing", "what was pipelined behind such a request is not looked at", async () => {
    const good = post([LENGTH], BODY);
    for (const bad of [
      post(["Content-Length: +2"], BODY),
      post(["Host: evil.example", LENGTH], BODY),
      chunked(CHUNKS, "Transfer-Encoding: identity, chunked"),
      target("http://evil.example/"),
    ]) {
      expect(await exchange(good + bad + good)).toEqual({ statuses: [200, 400], made: 1 });
    }
    const unmet = post(["Expect: nonsense", LENGTH], BODY);
    expect(await exchange(good + unmet + good)).toEqual({ statuses: [200, 417], made: 1 });
  });

  verifies(
    "hardening.framing",
    "the word that a body is wanted waits for the answers before it",
    async () => {
      await using connection = await RawConnection.open(service().service.baseUrl);
      connection.send(post([LENGTH], BODY) + post(["Expect: 100-continue", LENGTH]));
      expect([(await connection.answer()).status, (await connection.answer(1)).status]).toEqual([200, 100]);
      connection.send(BODY);
      expect(await connection.answer(2)).toMatchObject({ status: 200 });
    },
  );
});

describe("a Host that is no host is refused, and no link is made of it", () => {
  for (const host of NO_HOSTS) {
    verifies("hardening.host", JSON.stringify(host), async () => {
      const bytes = rawRequest("POST /device-authorization HTTP/1.1", [`Host: ${host}`, "Content-Length: 0"]);
      expect(await exchange(bytes)).toEqual({ statuses: [400], made: 0 });
    });
  }

  verifies("hardening.host", "links begin with the Host that was asked for", async () => {
    for (const host of ["example.com:8080", "[2001:db8::7]:4100"]) {
      await using connection = await RawConnection.open(service().service.baseUrl);
      connection.send(
        rawRequest("POST /device-authorization HTTP/1.1", [`Host: ${host}`, "Content-Length: 0"]),
      );
      const { status, body } = await connection.answer();
      expect(status).toBe(200);
      const { deviceAuthResponsePayload: asked } = JSON.parse(body);
      expect(asked.verification_uri).toBe(`http://${host}/device`);
    }
  });

  verifies("hardening.host", "an upgrade to WebSocket is looked at in the same way", async () => {
    const { owner } = service().service;
    const path = `/ws-logs?projectID=${owner.projectId}&token=${owner.token}&appID=${owner.projectId}-none`;
    const upgrade = [
      "Connection: Upgrade",
      "Upgrade: websocket",
      "Sec-WebSocket-Version: 13",
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    for (const hosts of [["Host: a/b?c"], [parts().host, "Host: evil.example"], []]) {
      const bytes = rawRequest(`GET ${path} HTTP/1.1`, [...hosts, ...upgrade]);
      expect(await exchange(bytes)).toEqual({ statuses: [400], made: 0 });
    }
  });
});

describe("a request that is right although it looks odd", () => {
  const RIGHT: readonly Spoilt[] = [
    ["chunks", 200, () => chunked(CHUNKS)],
    ["chunks by another spelling", 200, () => chunked(CHUNKS, "transfer-encoding:  CHUNKED ")],
    ["a chunk extension and a trailer", 200, () => chunked(CHUNKS.replace("\r\n", ";a=b\r\n"))],
    ["100 headers", 200, () => post([LENGTH, ...Array.from({ length: 96 }, () => "a: b")], BODY)],
    ["a body that is expected", 200, () => post(["Expect: 100-continue", LENGTH], BODY)],
    ["HTTP/1.0", 200, () => post([LENGTH], BODY).replace("HTTP/1.1", "HTTP/1.0")],
  ];
  for (const [title, status, bytes] of RIGHT) {
    test(title, async () => {
      await using connection = await RawConnection.open(service().service.baseUrl);
      connection.send(bytes());
      const first = await connection.answer();
      expect(first.status === 100 ? await connection.answer(1) : first).toMatchObject({ status });
    });
  }
});
