import { describe, expect, test } from "vitest";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
import hashlib

def run(**members):
    return members

def one(a):
    return a

def digest(text):
    return [len(text), hashlib.sha256(text.encode()).hexdigest()]
`;
const MAX_BODY = 1024 * 1024;

const service = sharedService({
  app: { main: MAIN, toml: `[scaling]\nmax_replicas = 1\n[limits]\nmax_body = ${MAX_BODY}\n` },
  roomy: { main: MAIN },
});

async function countRuns(): Promise<number> {
  await service().service.settle();
  return await service().service.store.runs.count({});
}

/** Sends the bytes as the body of a call and gives status, code and message. */
async function send(body: string | Buffer | undefined, headers: Record<string, string> = {}) {
  const response = await fetch(service().url("app"), {
    method: "POST",
    headers: {
      authorization: `Bearer ${service().service.owner.token}`,
      "content-type": "application/json",
      ...headers,
    },
    ...(body !== undefined && { body: new Uint8Array(Buffer.from(body)) }),
  });
  const json = (await response.json()) as { code?: string; message?: string; result?: unknown };
  return { status: response.status, code: json.code, message: json.message ?? "", result: json.result };
}

describe("the media type of a body", () => {
  const WRONG = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/jsonp",
    "application/json-patch+json",
    "application/json, text/plain",
    "application/json; boundary=x",
    "json",
  ];
  for (const type of WRONG) {
    verifies("errors.415.media-type", `${type} is 415`, async () => {
      expect(await send("{}", { "content-type": type })).toMatchObject({
        status: 415,
        code: "unsupported_media_type",
      });
    });
  }

  verifies("errors.415.media-type", "none at all is 415, and two are 400", async () => {
    const { owner, apiUrl } = service().service;
    const line = `POST /v4/${owner.projectId}/app/run HTTP/1.1`;
    const headers = ["Host: x", `Authorization: Bearer ${owner.token}`, "Content-Length: 2"];
    await using connection = await RawConnection.open(apiUrl);
    connection.send(rawRequest(line, headers, "{}"));
    expect(await connection.answer()).toMatchObject({ status: 415 });
    const type = "Content-Type: application/json";
    connection.send(rawRequest(line, [...headers, type, type], "{}"));
    expect(await connection.answer(1)).toMatchObject({ status: 400 });
  });

  verifies(
    "errors.415.charset",
    "a charset other than UTF-8 is 415, UTF-8 in any spelling is taken",
    async () => {
      for (const charset of ["latin1", "utf-16", "iso-8859-1", "utf8x", ""]) {
        const type = `application/json; charset=${charset}`;
        expect({ type, ...(await send("{}", { "content-type": type })) }).toMatchObject({
          type,
          status: 415,
        });
      }
      for (const type of [
        "application/json;charset=utf-8",
        "Application/JSON; Charset=UTF-8",
        'application/json; charset="utf-8"',
      ]) {
        expect({ type, ...(await send("{}", { "content-type": type })) }).toMatchObject({
          type,
          status: 200,
        });
      }
    },
  );

  verifies("errors.415.encoding", "a content encoding is 415, identity is none", async () => {
    for (const encoding of ["gzip", "br", "zstd", "deflate", "gzip, gzip", "GZIP", "identity, gzip"]) {
      const { status } = await send("{}", { "content-encoding": encoding });
      expect([encoding, status]).toEqual([encoding, 415]);
    }
    expect(await send("{}", { "content-encoding": "identity" })).toMatchObject({ status: 200 });
  });
});

describe("the size of a body", () => {
  const member = (bytes: number) => `{"a":"${"x".repeat(bytes - 8)}"}`;

  test("max_body itself is taken", async () => {
    expect(await send(member(MAX_BODY))).toMatchObject({ status: 200 });
  });

  test("5 MiB arrive whole and unchanged where the app's limit allows them", async () => {
    const text = "é".repeat(1024 * 1024) + "x".repeat(3 * 1024 * 1024);
    const { json } = await service().call("roomy", { text }, { functionName: "digest" });
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", Buffer.from(text)));
    expect(json.result).toEqual([text.length, Buffer.from(hash).toString("hex")]);
  });

  function head(header: string): string {
    const { owner } = service().service;
    const line = `POST /v4/${owner.projectId}/app/run HTTP/1.1`;
    const auth = `Authorization: Bearer ${owner.token}`;
    return rawRequest(line, ["Host: x", auth, "Content-Type: application/json", header]);
  }

  verifies("errors.413.length", "a longer one by its length is 413 before a byte of it came", async () => {
    const before = await countRuns();
    await using connection = await RawConnection.open(service().service.apiUrl);
    connection.send(head(`Content-Length: ${MAX_BODY + 1}`));
    expect(await connection.answer()).toMatchObject({ status: 413, headers: { connection: "close" } });
    await connection.closed();
    expect(JSON.parse(connection.answers[0]?.body ?? "")).toMatchObject({ code: "body_too_large" });
    expect(await countRuns()).toBe(before);
  });

  verifies("errors.413.bytes", "a longer one by its bytes is 413 and no more of it is read", async () => {
    const before = await countRuns();
    await using connection = await RawConnection.open(service().service.apiUrl);
    const { socket } = connection;
    connection.send(head("Transfer-Encoding: chunked"));
    const chunk = `10000\r\n${" ".repeat(0x10000)}\r\n`;
    const offeredBytes = 64 * MAX_BODY;
    while (!connection.isClosed && socket.bytesWritten < offeredBytes) {
      connection.send(chunk);
      // Never more than one chunk in the client's own buffer: the rest is up to the service.
      if (socket.writableNeedDrain) {
        await Promise.race([new Promise((resolve) => socket.once("drain", resolve)), connection.closed()]);
      }
      await new Promise(setImmediate);
    }
    await connection.closed();
    expect(connection.answers).toMatchObject([{ status: 413, headers: { connection: "close" } }]);
    // Beyond the limit only what the kernel's buffers hold.
    expect(socket.bytesWritten).toBeLessThan(offeredBytes / 2);
    expect(await countRuns()).toBe(before);
  });
});

describe("a body that is not a JSON object", () => {
  const nested = (depth: number) => `{"a":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`;
  const bytes = (...parts: (string | number)[]) =>
    Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part) : Buffer.from([part]))));

  async function expectRefused(bodies: readonly (string | Buffer)[]): Promise<void> {
    const before = await countRuns();
    for (const body of bodies) {
      const { status, code, message } = await send(body);
      expect([String(body), status, code]).toEqual([String(body), 400, "invalid_json"]);
      expect(message).not.toContain("secret");
    }
    expect(await countRuns()).toBe(before);
  }

  verifies("errors.400.not-json", "is 400 and its text is not repeated", async () => {
    await expectRefused([
      '{"secret":',
      '{"secret":1} x',
      '{"secret":1}{}',
      '{"secret":1,}',
      "{'secret':1}",
      '{"secret":1 /* x */}',
      "{secret:1}",
      '{"a":01}',
      '{"a":+1}',
      '{"a":.5}',
      '{"a":tru}',
      '{"a":"\t"}',
      '{"a":"\\x"}',
      " ",
      "\u00a0{}",
    ]);
  });
  verifies("errors.400.not-object", "a list, a text, a number, a word: each is 400", async () => {
    await expectRefused(["[]", '"secret"', "1", "null", "true", "[{}]"]);
  });
  verifies("errors.400.depth", "64 levels are taken, 65 and a million are 400", async () => {
    expect(await send(nested(64))).toMatchObject({ status: 200 });
    await expectRefused([nested(65), "[".repeat(1_000_000)]);
  });
  verifies("errors.400.utf8", "bad UTF-8, a byte order mark and UTF-16 are 400", async () => {
    await expectRefused([
      bytes('{"a":"', 0xff, '"}'),
      bytes('{"a":"', 0xc0, 0xaf, '"}'),
      bytes('{"a":"', 0xed, 0xa0, 0x80, '"}'),
      bytes('{"a":"', 0xe2, 0x82, '"}'),
      bytes(0xef, 0xbb, 0xbf, "{}"),
      Buffer.from("{}", "utf16le"),
    ]);
  });
  verifies("errors.400.surrogates", "half a pair is 400, a whole one arrives", async () => {
    await expectRefused(['{"a":"\\ud800"}', '{"a":"\\udc00"}', '{"\\ud800":1}', '{"a":"\\ud800\\ud800"}']);
    expect(await send('{"a":"\\ud83d\\ude00\\u0000"}')).toMatchObject({ result: { a: "😀\0" } });
  });
  verifies(
    "errors.400.duplicates",
    "a key that stands twice is 400, in whatever spelling and depth",
    async () => {
      await expectRefused(['{"a":1,"a":2}', '{"a":1,"\\u0061":2}', '{"b":[{"a":1,"a":1}]}']);
      expect(await send('{"a":{"a":1},"b":[{"a":1},{"a":1}]}')).toMatchObject({ status: 200 });
    },
  );
  verifies("errors.400.nan", "NaN and infinities are 400", async () => {
    await expectRefused(['{"a":NaN}', '{"a":Infinity}', '{"a":-Infinity}', '{"a":nan}']);
  });

  test("keys that JavaScript knows are plain data", async () => {
    const body =
      '{"__proto__":{"x":1},"constructor":{"prototype":1},"toString":1,"hasOwnProperty":2,"length":3}';
    expect(JSON.stringify((await send(body)).result)).toBe(body);
  });
});

verifies(
  "errors.422",
  "arguments that do not fit the signature are 422, and the code is not entered",
  async () => {
    const answer = await service().call("app", { b: 1 }, { functionName: "one" });
    expect([answer.status, answer.json.code]).toEqual([422, "invalid_arguments"]);
  },
);

verifies(
  "errors.details",
  "details name each fault, and are absent where there is one answer only",
  async () => {
    const misfit = await service().call("app", { b: 1, c: 2 }, { functionName: "one" });
    expect(misfit.json.details).toEqual([
      { field: "a", problem: "missing" },
      { field: "b", problem: "unknown" },
      { field: "c", problem: "unknown" },
    ]);
    const notJson = await service().call("app", "{");
    expect(notJson.json).not.toHaveProperty("details");
  },
);
