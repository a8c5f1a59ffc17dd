import { once } from "node:events";
import { request } from "node:http";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { DeploySite, HELD, answering, bundle } from "./site.ts";

const service = sharedService({}, { maxUploadBytes: 1_000_000 });
const here = (): DeploySite => new DeploySite(service());

// oxlint-disable-next-line no-explicit-any
function linesOf(text: string): any[] {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}

verifies("deploy.one-call", "a zip is deployed by one call that tells its log and its end", async () => {
  const site = here();
  const { apiUrl } = site.test.service;
  const answer = await site.ask("POST", "deploys?name=hello", bundle(answering("at once")));
  expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/x-ndjson"]);
  const lines = linesOf(answer.text);
  const last = lines.pop();
  expect(lines.map(({ stage }) => stage)).toEqual(expect.arrayContaining(["upload", "extract", "check"]));
  expect(lines[0]).toEqual({
    log: expect.stringContaining("received"),
    stream: "stdout",
    stage: "upload",
    createdAt: expect.stringMatching(/\.\d{9}Z$/),
  });
  const { id } = last.build;
  expect(last).toEqual({
    build: { id, status: "success", createdAt: expect.any(String), updatedAt: expect.any(String) },
    endpoint: `${apiUrl}/v4/${site.projectId}/hello`,
    message: null,
  });
  expect(await site.status("hello", id)).toBe("success");
  expect(await site.answer("hello")).toBe("at once");
  expect(await site.leftovers()).toEqual([]);
  expect((await site.ask("GET", "audit")).json.items[0]).toMatchObject({
    action: "app.deploy",
    after: { buildId: id },
  });
});

verifies("deploy.one-call", "the log comes line by line; a caller who leaves cancels nothing", async () => {
  const site = here();
  const { baseUrl, owner } = site.test.service;
  const zip = bundle(answering("all the same"), {
    "millrace.toml": `[deployment]\nshell_commands = [${JSON.stringify(HELD)}]\n`,
  });
  const url = `${baseUrl}/v2/projects/${owner.projectId}/deploys?name=leaving`;
  const call = request(url, { method: "POST", headers: { authorization: `Bearer ${owner.token}` } });
  call.end(zip);
  const [response] = await once(call, "response");
  const lines = createInterface({ input: response });
  // Of leaving.
  for (const reading of [response, lines]) reading.on("error", () => {});
  for await (const line of lines) {
    if ((JSON.parse(line) as { log: string }).log === "held") break;
  }
  call.destroy();
  const { json } = await site.ask("GET", `apps/${site.appId("leaving")}/builds`);
  await site.letGo("leaving", json[0].id);
  expect(await site.ended("leaving", json[0].id)).toBe("success");
  expect(await site.answer("leaving")).toBe("all the same");
});

verifies("deploy.one-call", "a deploy that fails ends its answer with why", async () => {
  const site = here();
  const { status, text } = await site.ask("POST", "deploys?name=broken", bundle("raise ValueError('no')\n"));
  expect(status).toBe(200);
  expect(linesOf(text).slice(-2)).toMatchObject([
    { log: "ValueError: no", stage: "check", stream: "stderr" },
    { build: { status: "init_failure" }, message: "ValueError: no" },
  ]);
});

test("what cannot be begun is refused with an ordinary status, and nothing is made", async () => {
  const site = here();
  const zip = bundle(answering("x"));
  const cases: [string, Uint8Array, number, string][] = [
    ["deploys?name=Not+Good", zip, 422, "deploy_invalid"],
    ["deploys", zip, 400, "bad_request"],
    ["deploys?name=large", Buffer.alloc(1_000_001), 413, "body_too_large"],
  ];
  for (const [path, body, status, code] of cases) {
    const answer = await site.ask("POST", path, body);
    expect([path, answer.status, answer.json.code]).toEqual([path, status, code]);
  }
  expect(await site.leftovers()).toEqual([]);
  expect((await site.ask("GET", `apps/${site.appId("large")}`)).status).toBe(404);
});

test("a call that breaks off while it sends makes nothing", async () => {
  const site = here();
  const { baseUrl, owner } = site.test.service;
  const url = `${baseUrl}/v2/projects/${owner.projectId}/deploys?name=half`;
  const headers = { authorization: `Bearer ${owner.token}`, "content-length": "100000" };
  const call = request(url, { method: "POST", headers });
  call.on("error", () => {});
  call.write(Buffer.alloc(5_000));
  await until("it arrives", async () => (await site.leftovers()).length === 1);
  call.destroy();
  await until("nothing is left", async () => (await site.leftovers()).length === 0);
  expect((await site.ask("GET", `apps/${site.appId("half")}`)).status).toBe(404);
});
