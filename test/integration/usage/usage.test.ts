import { beforeAll, expect } from "vitest";
import type { UsageRecord } from "../../../src/shapes/usage.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "../cli/client.ts";

const MAIN = `
def run(text=""):
    if text == "fail":
        raise ValueError(text)
    return {"text": text}

def lines(count=3):
    for number in range(count):
        yield "line"

def chat(stream=False):
    usage = {"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46}
    choices = [{"index": 0, "message": {"role": "assistant", "content": "Hello"}}]
    if not stream:
        return {"id": "chatcmpl-1", "object": "chat.completion", "choices": choices, "usage": usage}
    def chunks():
        yield {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": choices}
        yield {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": usage}
        yield "[DONE]"
    return chunks()
`;
const TAG = '=HYPERLINK("http://evil.example")';

const service = sharedService({ hello: { main: MAIN }, other: { main: MAIN } });
let site: ManagementSite;
let accountId = "";
beforeAll(async () => {
  site = await ManagementSite.open(service());
  const { json } = await site.call("createServiceAccount", {}, { body: { name: "ci", role: "run" } });
  accountId = String(json.id);
  const token = String(json.token);
  const test = service();
  const before = await runs();
  for (const text of ["a", "b", "fail"]) await test.call("hello", { text }, { token });
  await test.call("hello", { count: 4 }, { functionName: "lines", token });
  await test.call("hello", {}, { functionName: "chat" });
  await test.call("hello", { stream: true }, { functionName: "chat/completions" });
  await test.call(
    "other",
    { text: "x" },
    { suffix: `?async=true&tag=${encodeURIComponent(TAG)}&tag=nightly` },
  );
  await until("the async run has ended", async () => {
    await test.service.settle();
    return (await runs()).length === before.length + 7;
  });
});

// oxlint-disable-next-line no-explicit-any
async function runs(): Promise<any[]> {
  const { json } = await site.call("listProjectRuns", { pageSize: "100" });
  return json.items.filter(({ completedAt }: { completedAt: string | null }) => completedAt !== null);
}

async function usage(query: Record<string, string>): Promise<UsageRecord[]> {
  return (await site.call("getUsage", query)).json.items;
}

verifies("usage.groups", "usage is added up by day, app, token and tag", async () => {
  const ended = await runs();
  const sum = (member: string): number =>
    ended.reduce((total, run) => total + ((run[member] as number | undefined) ?? 0), 0);
  const [all] = await usage({ groupBy: "" });
  expect(all).toMatchObject({
    calls: 7,
    succeeded: 6,
    failed: 1,
    cancelled: 0,
    requestBytes: sum("requestBytes"),
    responseBytes: sum("responseBytes"),
    inputTokens: 24,
    outputTokens: 68,
    gpuSeconds: 0,
  });
  expect(all!.runSeconds * 1000).toBeCloseTo(sum("runtimeMs"), 1);
  const byApp = await usage({ groupBy: "app" });
  expect(byApp.map(({ appId, calls }) => [appId, calls])).toEqual([
    [`${site.projectId}-hello`, 6],
    [`${site.projectId}-other`, 1],
  ]);
  const byToken = await usage({ groupBy: "day,token", app_id: `${site.projectId}-hello` });
  expect(byToken.find((used) => used.accountId === accountId)).toMatchObject({ calls: 4, failed: 1 });
  expect(await usage({ groupBy: "", token: accountId })).toMatchObject([{ calls: 4 }]);
  expect(await usage({ groupBy: "", token: "none" })).toEqual([]);
  const tags = await usage({ groupBy: "tag" });
  expect(tags.map(({ tag, calls }) => [tag, calls])).toEqual([
    [TAG, 1],
    ["nightly", 1],
  ]);
  expect(await usage({ groupBy: "app", tag: "nightly" })).toMatchObject([
    { appId: `${site.projectId}-other` },
  ]);
  const tomorrow = new Date(Date.now() + 2 * 86_400_000).toISOString().slice(0, 10);
  expect(await usage({ from: tomorrow, to: tomorrow })).toEqual([]);
});

verifies("usage.bounds", "what cannot be answered is refused with a reason", async () => {
  const refused = async (query: string): Promise<string> => {
    const { status, json } = await site.ask("GET", `usage?${query}`);
    expect(status).toBe(400);
    return String(json.message);
  };
  expect(await refused("groupBy=token,tag")).toContain("either tokens or tags");
  expect(await refused("groupBy=week")).toContain("is not day, app, token or tag");
  expect(await refused("groupBy=day,day")).toContain("twice");
  expect(await refused("from=2026-02-01&to=2026-01-01")).toContain("is after to");
  expect(await refused("from=2020-01-01")).toContain("400 days");
  expect((await site.ask("GET", `usage?app_id=${site.projectId}-none`)).json.code).toBe("app_not_found");
});

verifies("usage.csv", "as CSV, no text of it is a formula to a spreadsheet", async () => {
  const asked = await site.ask("GET", "usage?groupBy=tag", { headers: { accept: "text/csv" } });
  const named = await site.ask("GET", "usage?groupBy=tag&format=csv");
  expect(asked.text).toBe(named.text);
  expect(asked.headers.get("content-type")).toBe("text/csv; charset=utf-8");
  expect(asked.headers.get("content-disposition")).toMatch(
    /^attachment; filename="usage-p-\w+-[\d-]+\.csv"$/,
  );
  const [heading, first, second, ...rest] = asked.text.split("\r\n");
  expect(heading).toMatch(/^tag,calls,succeeded,failed,/);
  expect(first).toMatch(/^"'=HYPERLINK\(""http:\/\/evil\.example""\)",1,1,0,/);
  expect(second).toMatch(/^nightly,1,/);
  expect(rest).toEqual([""]);
});

verifies("usage.cli", "`millrace usage` prints it", async () => {
  const client = new Client(service());
  const table = await client.ok("usage", "--by", "app");
  expect(table).toMatch(/APP\s+CALLS\s+FAILED\s+RAN/);
  expect(table).toMatch(/-hello\s+6\s+1/);
  expect(await client.ok("usage", "--by", "day,app", "--csv")).toMatch(/^day,app_id,calls,/);
  const document = await client.json("usage", "--by", "tag");
  expect(document).toMatchObject({ groupBy: ["tag"], items: [{ tag: TAG }, { tag: "nightly" }] });
  const wrong = await client.run("usage", "--by", "week");
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("--by takes day, app, token, tag")]);
});
