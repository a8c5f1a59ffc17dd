import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { type Caller, CALLERS, type Described, ManagementSite } from "../../support/management-site.ts";
import { anyText, aroundOf, valuesOf } from "../../support/schema-values.ts";
import { testService } from "../../support/service.ts";

const databases = testDatabases();
const MAIN = 'def run(name="you"):\n    print(name)\n    return name\n';
const IS_FULL = process.env["MILLRACE_FAULTS"] === "full";
/** Postgres is asked less: what differs between the databases is in the tests of the store. */
const RUNS_PER_OPERATION = IS_FULL ? { sqlite: 250, postgres: 50 } : { sqlite: 8, postgres: 4 };
/** The same requests each time, unless somebody wants others: how many of each kind there are is no luck then. */
const SEED = Number(process.env["MILLRACE_TEST_SEED"] ?? 14);

type Request = {
  readonly as: Caller;
  readonly url: string;
  readonly body: string | undefined;
  readonly type: string;
};

/** Things that are there, by the name of the parameter that takes them. */
type Known = Readonly<Record<string, readonly string[]>>;

const TYPES = [
  "application/json",
  "application/json; charset=utf-8",
  "text/plain",
  "application/x-www-form-urlencoded",
];

/** A path's part that reaches its route: an empty one, and dots, would be another address. */
function pathPart(name: string, known: Known, schema: object): fc.Arbitrary<string> {
  const texts = fc.oneof(anyText, valuesOf(schema).map(String)).filter((text) => text.isWellFormed());
  const there = known[name];
  const part = there ? fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...there) }, texts) : texts;
  return part.filter((text) => text !== "" && text !== "." && text !== "..").map(encodeURIComponent);
}

function queryPart(name: string, known: Known, schema: object): fc.Arbitrary<string | null> {
  const there = known[name] ?? [""];
  return fc.oneof(
    { weight: 2, arbitrary: fc.constant(null) },
    { weight: 3, arbitrary: fc.constantFrom(...there) },
    { weight: 3, arbitrary: valuesOf(schema).map(String) },
    anyText,
  );
}

/** Requests to an operation as its document describes them, good and bad, from everybody. */
function requestsTo(
  { method, path, parameters, requestBody }: Described,
  known: Known,
): fc.Arbitrary<Request> {
  const inPath = parameters.filter((parameter) => parameter.in === "path");
  const inQuery = parameters.filter((parameter) => parameter.in === "query");
  const parts = inPath.map(({ name, schema }) => pathPart(name, known, schema));
  const queries = inQuery.map(({ name, schema }) => queryPart(name, known, schema));
  const { schema = {} } = requestBody?.content["application/json"] ?? {};
  const json = aroundOf(schema).map((value) => JSON.stringify(value));
  const body =
    method === "GET"
      ? fc.constant(undefined)
      : fc.oneof({ weight: 6, arbitrary: json }, fc.constantFrom(undefined, "", "{", "nul"), anyText);
  return fc
    .record({
      as: fc.constantFrom(...CALLERS),
      parts: fc.tuple(...parts),
      queries: fc.tuple(...queries),
      body,
      type: fc.oneof({ weight: 8, arbitrary: fc.constant(TYPES[0] ?? "") }, fc.constantFrom(...TYPES)),
    })
    .map(({ parts: given, queries: asked, ...rest }) => {
      const query = new URLSearchParams();
      for (const [place, value] of asked.entries()) {
        if (value !== null) query.append(inQuery[place]?.name ?? "", value.toWellFormed());
      }
      let url = path;
      for (const [place, value] of given.entries()) url = url.replace(`{${inPath[place]?.name}}`, value);
      return { ...rest, url: query.size === 0 ? url : `${url}?${String(query)}` };
    });
}

async function openSite(databaseUrl: string | null): Promise<{ site: ManagementSite; known: Known }> {
  const service = await testService({ hello: { main: MAIN } }, databaseUrl === null ? {} : { databaseUrl });
  const site = await ManagementSite.open(service);
  const { json } = await service.call("hello", {});
  await service.service.settle();
  const { json: upload } = await site.call("beginUpload", {}, { body: { file_path: "a/b", part_count: 3 } });
  await site.call("beginUpload", {}, { body: { file_path: "a/empty", part_count: 0 } });
  const { json: offered } = await site.call("offerFile", { file_path: "a/empty" });
  const grantOf = (url: string): string => new URL(url).searchParams.get("grant") ?? "";
  const { json: account } = await site.call("createServiceAccount", {}, { body: { name: "victim" } });
  const begun = await site.call("beginDeploy", {}, { body: { name: "hello" } });
  const known = {
    project_id: [site.projectId, site.projectId, "p-stranger", "p-none"],
    app_id: [`${site.projectId}-hello`, "p-stranger-hello"],
    run_id: [json.run_id],
    runId: [json.run_id],
    id: [account.id, json.run_id],
    part_number: ["1", "2", "3", "4"],
    grant: [grantOf(upload.parts[0].url), grantOf(offered.url), grantOf(begun.json.uploadUrl)],
    build_id: [begun.json.buildId],
    name: ["hello", "other"],
    file_path: ["a/empty", "a/", "/", "a/b"],
    dir: ["/", "a", "."],
    upload_id: [upload.upload_id],
  };
  return { site, known };
}

describe.each(DATABASE_KINDS)("on %s", (kind) => {
  test("nothing that is sent to any operation makes it fail, or answer what the document does not know", async () => {
    const { databaseUrl } = await databases.fresh(kind);
    const { site, known } = await openSite(databaseUrl);
    const statuses = new Map<string, Set<number>>();
    for (const operation of site.operations) {
      const seen = new Set<number>();
      statuses.set(operation.id, seen);
      await fc.assert(
        fc.asyncProperty(requestsTo(operation, known), async ({ as, url, body, type }) => {
          const headers = body === undefined ? {} : { "content-type": type };
          const answer = await site.ask(operation.method, url, {
            as,
            headers,
            ...(body !== undefined && { body: body.toWellFormed() }),
          });
          seen.add(answer.status);
          expect(answer.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
          if (answer.status >= 500) throw new Error(`${answer.status} ${answer.text}`);
          site.check(operation.id, answer);
        }),
        { numRuns: RUNS_PER_OPERATION[kind], seed: SEED },
      );
    }
    // The requests were not all of one kind.
    const all = new Set([...statuses.values()].flatMap((seen) => [...seen]));
    expect([...all]).toEqual(expect.arrayContaining([200, 400, 401, 403, 404, 415]));
    const succeeded = [...statuses.values()].filter((seen) => seen.has(200));
    expect(succeeded.length).toBeGreaterThan(site.operations.length / 3);
  });
});
