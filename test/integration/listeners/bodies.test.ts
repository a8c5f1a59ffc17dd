import { beforeAll, expect } from "vitest";
import { type Described, ManagementSite } from "../../support/management-site.ts";
import { type RawAnswer, RawConnection, rawRequest } from "../../support/raw-http.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { APPS, place } from "./both.ts";

const service = sharedService(APPS);
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});

const KIB = 1024;
const JSON_TYPE = "Content-Type: application/json";

const pathOf = ({ path }: Described): string =>
  path.replace("{project_id}", site.projectId).replaceAll(/\{\w+\}/g, "none");
const isJson = ({ requestBody }: Described): boolean =>
  requestBody?.content["application/json"] !== undefined;
const needsToken = ({ security }: Described): boolean => security !== undefined && security.length > 0;

/** Sends bytes to the management API and gives its answer; nothing more is sent. */
async function sent(line: string, headers: readonly string[], body = ""): Promise<RawAnswer> {
  await using connection = await RawConnection.open(site.test.service.baseUrl);
  connection.send(rawRequest(line, ["Host: x", ...headers], body));
  return await connection.answer();
}

function codeOf({ status, body }: RawAnswer): [number, string] {
  return [status, (JSON.parse(body) as { code: string }).code];
}

const asAdmin = (): string => `Authorization: Bearer ${site.tokens.admin}`;

verifies(
  "bodies.token-first",
  "every operation that takes a token refuses without one before any of the body has come",
  async () => {
    const operations = site.operations.filter(
      (operation) => needsToken(operation) && operation.method !== "GET",
    );
    expect(operations.length).toBeGreaterThan(20);
    for (const operation of operations) {
      const { id, method } = operation;
      for (const how of ["Content-Length: 1000000", "Transfer-Encoding: chunked"]) {
        const answer = await sent(`${method} ${pathOf(operation)} HTTP/1.1`, [JSON_TYPE, how]);
        expect([id, how, ...codeOf(answer)]).toEqual([id, how, 401, "unauthorized"]);
      }
      // Asked whether the body is wanted, it says the same and not 100.
      const held = await sent(`${method} ${pathOf(operation)} HTTP/1.1`, [
        JSON_TYPE,
        "Content-Length: 9",
        "Expect: 100-continue",
      ]);
      expect([id, held.status]).toEqual([id, 401]);
    }
  },
);

verifies(
  "bodies.size",
  "anybody may send 16 KiB, by the length that is told and by the bytes that come",
  async () => {
    const operations = site.operations.filter((operation) => !needsToken(operation) && isJson(operation));
    expect(operations.map(({ id }) => id)).toContain("signIn");
    for (const operation of operations) {
      const line = `${operation.method} ${pathOf(operation)} HTTP/1.1`;
      const told = await sent(line, [JSON_TYPE, `Content-Length: ${16 * KIB + 1}`]);
      expect([operation.id, ...codeOf(told)]).toEqual([operation.id, 413, "body_too_large"]);
      const chunk = `{"a":"${"x".repeat(16 * KIB)}`;
      const came = await sent(
        line,
        [JSON_TYPE, "Transfer-Encoding: chunked"],
        `${chunk.length.toString(16)}\r\n${chunk}\r\n`,
      );
      expect([operation.id, ...codeOf(came)]).toEqual([operation.id, 413, "body_too_large"]);
      const fits = `{"a":"${"x".repeat(16 * KIB - 8)}"}`;
      const { status } = await sent(line, [JSON_TYPE, `Content-Length: ${fits.length}`], fits);
      expect([operation.id, status]).toEqual([operation.id, 400]);
    }
  },
);

verifies("bodies.size", "a token allows 64 KiB, and more only where the operation says so", async () => {
  const larger = new Map([
    ["createSchedule", 128],
    ["changeSchedule", 128],
    ["beginDeploy", 256],
    ["beginPartnerDeploy", 256],
    ["makeBaseImage", 256],
    ["replaceProjectSecrets", 512],
    ["replaceAppSecrets", 512],
    ["completeUpload", 512],
  ]);
  const operations = site.operations.filter((operation) => needsToken(operation) && isJson(operation));
  for (const operation of operations) {
    const { id, method } = operation;
    const maxBytes = (larger.get(id) ?? 64) * KIB;
    const headers = [asAdmin(), JSON_TYPE, `Content-Length: ${maxBytes + 1}`];
    const answer = await sent(`${method} ${pathOf(operation)} HTTP/1.1`, headers);
    // What is for people alone may refuse a service account first.
    if (answer.status === 403) continue;
    expect([id, ...codeOf(answer)]).toEqual([id, 413, "body_too_large"]);
    expect(answer.body).toContain(`${maxBytes} bytes`);
  }
});

const DEEP: readonly [string, string][] = [
  ["33 levels", `{"name":${"[".repeat(32)}${"]".repeat(32)}}`],
  ["33 levels of objects", `${'{"a":'.repeat(33)}0${"}".repeat(33)}`],
  ["thousands of levels that never end", `{"name":${"[".repeat(15_000)}`],
  ["no object", `[${"0,".repeat(5_000)}0]`],
  ["a name that stands twice", '{"name":"a","name":"b"}'],
];

verifies(
  "bodies.depth",
  "what is deep, endless or many is refused by every operation with a body",
  async () => {
    const operations = site.operations.filter(isJson);
    for (const operation of operations) {
      for (const [title, body] of DEEP) {
        const headers = [asAdmin(), JSON_TYPE, `Content-Length: ${body.length}`];
        const answer = await sent(`${operation.method} ${pathOf(operation)} HTTP/1.1`, headers, body);
        if (answer.status === 403) continue;
        expect([operation.id, title, ...codeOf(answer)]).toEqual([operation.id, title, 400, "invalid_json"]);
      }
    }
  },
);

verifies(
  "bodies.counts",
  "more values than an operation can use are refused before anybody looks at them",
  async () => {
    const many = (count: number): string =>
      JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 1])));
    const parts = Array.from({ length: 2_001 }, (_, at) => ({ part_number: at + 1, etag: "x" }));
    const cases: [string, string, string][] = [
      ["PATCH", "secrets", many(600)],
      ["POST", "service-accounts", many(2_500)],
      ["POST", "volumes/default/cp/complete", JSON.stringify({ upload_id: "x", file_path: "a", parts })],
      ["POST", "volumes/default/cp/initialize", JSON.stringify({ file_path: "a", part_count: 2_001 })],
      ["POST", "apps", many(5_500)],
    ];
    for (const [method, path, body] of cases) {
      const { status, json } = await site.ask(method, path, { body });
      expect([path, status, json.message.length < 200]).toEqual([path, 400, true]);
    }
  },
);

verifies("bodies.size", "a body to nowhere, and to a method that is not there, is not read", async () => {
  for (const line of ["POST /nowhere HTTP/1.1", "PUT /v2/projects HTTP/1.1", "POST /docs HTTP/1.1"]) {
    const answer = await sent(line, [JSON_TYPE, "Content-Length: 100000000"]);
    expect([line, [404, 405].includes(answer.status)]).toEqual([line, true]);
  }
});

verifies("bodies.size", "who sends a whole large body reads the refusal", async () => {
  for (const [as, bytes, status] of [
    ["nobody", 3_700_000, 401],
    ["admin", 3_700_000, 413],
  ] as const) {
    const answer = await site.ask("POST", "service-accounts", {
      as,
      body: `{"name":"${"x".repeat(bytes)}"}`,
    });
    expect(answer.status).toBe(status);
  }
  const signIn = await site.ask("POST", "/v2/session", {
    as: "nobody",
    body: `{"email":"${"x".repeat(3_700_000)}"}`,
  });
  expect(signIn.status).toBe(413);
  // The run endpoint takes what its app takes.
  const body = { size: 1, ignored: "x".repeat(100_000) };
  const called = await service().call("open", body, { token: null });
  expect([called.status, place(service(), "open")]).toEqual([422, expect.any(String)]);
});
