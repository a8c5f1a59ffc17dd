import { expect, test } from "vitest";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { asOwner } from "../../support/as-owner.ts";
import { sampleEnd, sampleRun } from "../../support/sample-run.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "./client.ts";

const MAIN = `
import time


def run(n: int = 12345678901234567890123):
    print(f"running with {n}", flush=True)
    return {"n": n}


def fail():
    raise ValueError("no such model")


def count(upto: int = 2, pause: float = 0):
    for number in range(upto):
        print(f"counting {number}", flush=True)
        yield f"Number {number}"
        time.sleep(pause)


def train():
    import millrace

    millrace.progress(0.425, "epoch 2")
    time.sleep(0.5)
    yield "trained"
    millrace.checkpoint({"epoch": 2})
`;

const shared = sharedService({ tool: { main: MAIN } });

async function runId(client: Client, ...words: string[]): Promise<string> {
  return (await client.ok("call", "tool", ...words, "--async")).trim();
}

verifies("cli.runs", "runs are listed, by status and as many as asked for, page after page", async () => {
  const test = shared();
  const client = new Client(test);
  for (let n = 0; n < 120; n += 1) await test.call("tool", { n });
  await client.run("call", "tool", "fail");
  await test.service.settle();
  // More than a page of the API holds.
  expect(await client.json("runs", "list", "tool", "--limit", "110")).toHaveLength(110);
  expect(await client.json("runs", "list", "tool")).toHaveLength(20);
  const failed = await client.ok("runs", "list", "tool", "--status", "failure");
  expect(failed).toMatch(
    /^RUN +CALLED +STATUS +CODE +TOOK +CREATED +ERROR\n\S+ +fail +failure +500 .*ValueError: no such model\n$/,
  );
  expect(await client.json("runs", "list", "tool", "--async")).toEqual([]);
});

verifies(
  "cli.runs.project",
  "without an app, the runs of all apps are listed, each with its app",
  async () => {
    const test = shared();
    await test.deploy("second", { main: "def run():\n    return 1\n" });
    await test.call("second", {});
    await test.call("tool", {});
    await test.service.settle();
    const listed = await new Client(test).ok("runs", "list", "--limit", "2");
    expect(listed).toMatch(/^RUN +APP +CALLED .*\n\S+ +tool +run .*\n\S+ +second +run .*\n$/);
    const { projectId } = test.service.owner;
    const [newest] = await new Client(test).json("runs", "list", "--limit", "1");
    expect(newest).toMatchObject({ modelId: `${projectId}-tool` });
  },
);

verifies("cli.runs", "one run is shown with its result, every digit of it", async () => {
  const client = new Client(shared());
  const id = await runId(client);
  await client.ok("runs", "tail", "tool", id);
  const shown = await client.ok("runs", "get", "tool", id);
  expect(shown).toMatch(new RegExp(`^run +${id}\ncalled +run \\(async\\)\nstatus +success  200\n`));
  expect(shown).toContain('"n": 12345678901234567890123');
  const { code, stdout } = await client.run("runs", "get", "tool", id, "--json");
  expect([code, stdout]).toEqual([0, expect.stringContaining('"result":{"n":12345678901234567890123}}')]);
});

verifies("run-record.batch", "a run that left in a batch says so", async () => {
  const { service } = shared();
  const { projectId } = service.owner;
  const { number: appNumber } = (await service.store.apps.find({ projectId, name: "tool" }))!;
  const run = sampleRun({ appNumber, batchSize: 32, batchReason: "window" });
  await service.store.runs.insertFinished([packEnded([sampleEnd(run)])]);
  const client = new Client(shared());
  expect(await client.ok("runs", "get", "tool", run.id)).toMatch(/^batch +32 calls {2}window$/m);
  expect(await client.json("runs", "get", "tool", run.id)).toMatchObject({
    batchSize: 32,
    batchReason: "window",
  });
});

verifies("retry.attempts", "a run's attempts are shown, and when the next one may begin", async () => {
  const client = new Client(shared());
  const toml = '[retry]\non = ["error"]\ninitial_delay = "1h"\n';
  await shared().deploy("later", { main: MAIN, toml });
  const id = (await client.ok("call", "later", "fail", "--async")).trim();
  let shown = "";
  await until("it waits", async () => {
    shown = await client.ok("runs", "get", "later", id);
    return shown.includes("\nbegins ");
  });
  expect(shown).toMatch(/^begins +in \d+ (min|h) {2}\S+Z$/m);
  expect(shown).toMatch(/^attempt 1 +\S+Z {2}app_error: ValueError: no such model$/m);
});
verifies(
  "progress.record",
  "progress and checkpoint of a run are shown, and are not printed as its output",
  async () => {
    const client = new Client(shared());
    const id = await runId(client, "train");
    expect(await client.ok("runs", "tail", "tool", id)).toBe("trained\n");
    const shown = await client.ok("runs", "get", "tool", id);
    expect(shown).toMatch(/^progress +42 % {2}epoch 2 {2}\S.*$/m);
    expect(shown).toMatch(/^checkpoint +\S.* attempt 1 {2}after 1 chunk$/m);
  },
);

verifies("cli.runs", "tail prints what a run yields from its beginning, live and later", async () => {
  const client = new Client(shared());
  const id = await runId(client, "count", "upto=2", "pause=0.5");
  expect(await client.ok("runs", "tail", "tool", id)).toBe("Number 0\nNumber 1\n");
  expect(await client.ok("runs", "tail", "tool", id, "--after", "1")).toBe("Number 1\n");
  expect(await client.ok("runs", "tail", "tool", id, "--json")).toBe(
    '{"id":1,"data":"Number 0"}\n{"id":2,"data":"Number 1"}\n',
  );
  const failed = await client.run("runs", "tail", "tool", await runId(client, "fail"));
  expect([failed.code, failed.stderr]).toEqual([
    1,
    expect.stringContaining("app_error: ValueError: no such model"),
  ]);
});

verifies("cli.runs", "cancel ends a run; one that has ended says so", async () => {
  const client = new Client(shared());
  const id = await runId(client, "count", "upto=2", "pause=600");
  expect(await client.ok("runs", "cancel", "tool", id)).toBe(`run ${id} is cancelled.\n`);
  await until("cancelled", async () => (await shared().ofRun("tool", id)).json.status === "cancelled");
  const again = await client.run("runs", "cancel", "tool", id);
  expect([again.code, again.stderr]).toEqual([1, "millrace: The run has already ended\n"]);
});

verifies("cli.logs", "logs shows the last lines, since a time, of a run, with a text in them", async () => {
  const client = new Client(shared());
  const id = await runId(client, "n=4141");
  await client.ok("runs", "tail", "tool", id);
  const { projectId } = shared().service.owner;
  const logs = `/v2/projects/${projectId}/apps/${projectId}-tool/logs?runId=${id}`;
  await until("the line is kept", async () => {
    const { logs: lines } = await asOwner(shared())<{ logs: object[] }>("GET", logs);
    return lines.length > 0;
  });
  expect(await client.ok("logs", "tool", "--run", id)).toContain("running with 4141");
  expect(await client.ok("logs", "tool", "--search", "WITH 4141")).toMatch(
    /^\d\d:\d\d:\d\d\.\d{3}  running with 4141\n$/,
  );
  expect(await client.ok("logs", "tool", "--since", "1h", "--limit", "1")).toMatch(/^\S+  \S.*\n$/);
  expect(await client.ok("logs", "tool", "--since", "2999-01-01T00:00:00Z")).toBe("");
  const [line] = await client.json("logs", "tool", "--run", id);
  expect(line).toMatchObject({ logLine: "running with 4141", runId: id });
});

verifies("cli.logs", "logs --follow goes on with what comes, until Ctrl-C", async () => {
  const client = new Client(shared());
  const follow = client.start("logs", "tool", "--follow", "--search", "with 7");
  const seen = (text: string): boolean => follow.stdout.includes(text);
  let n = 7_000;
  // The first lines may be printed before the socket is open; one of these comes after it.
  await until("a line that follows", async () => {
    await shared().call("tool", { n: (n += 1) });
    return seen("running with 7");
  });
  await shared().call("tool", { n: 6_000 });
  await shared().call("tool", { n: 7_999 });
  await follow.printed(/running with 7999/);
  expect(seen("running with 6000")).toBe(false);
  expect(await follow.interrupt()).toBe(130);
  expect(follow.stderr).toBe("");
});

test("what is typed wrongly ends with 2", async () => {
  const client = new Client(shared());
  for (const [args, message] of [
    [["runs", "list", "tool", "--status", "done"], "--status takes one of queued, running"],
    [["runs", "list", "tool", "--limit", "none"], "--limit takes a number"],
    [["runs", "tail", "tool", "x", "--after", "-1"], "--after takes a number"],
    [["logs", "tool", "--since", "yesterday"], "--since takes a duration"],
  ] as const) {
    const { code, stderr } = await client.run(...args);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  }
});
