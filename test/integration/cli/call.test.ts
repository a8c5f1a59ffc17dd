import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "./client.ts";

const MAIN = `
import time


def run(**given):
    return given


def text():
    return "two\\nlines"


def big():
    return {"n": 12345678901234567890123}


def refuse():
    return {"status_code": 404, "why": "none"}


def fail():
    raise ValueError("no such model")


def count(upto: int, pause: float = 0):
    for number in range(upto):
        yield f"Number {number}"
        time.sleep(pause)


def break_off():
    yield "one"
    time.sleep(1.2)
    raise ValueError("halfway")


def slow(seconds: float = 60):
    print("slow begins", flush=True)
    time.sleep(seconds)
    return "done"
`;

const shared = sharedService({ tool: { main: MAIN } }, { webhookAllow: "127.0.0.0/8" });

verifies("cli.call", "arguments come as key=value, as JSON, from a file and from a pipe", async () => {
  const client = new Client(shared());
  const pairs = ["name=Ada", "n=3", "list=[1,2]", "text=01", "big=12345678901234567890", "empty="];
  expect(JSON.parse(await client.ok("call", "tool", ...pairs))).toEqual({
    name: "Ada",
    n: 3,
    list: [1, 2],
    text: "01",
    big: Number("12345678901234567890"),
    empty: "",
  });
  writeFileSync(path.join(client.cwd, "prompt.json"), '{"from": "file"}');
  writeFileSync(path.join(client.cwd, "poem.txt"), "two\nlines");
  const merged = await client.ok("call", "tool", "run", "--data", "@prompt.json", "poem=@poem.txt");
  expect(JSON.parse(merged)).toEqual({ from: "file", poem: "two\nlines" });
  const piped = await client.pipe('{"from": "pipe"}', "call", "tool", "--data", "-");
  expect(JSON.parse(piped.stdout)).toEqual({ from: "pipe" });
});

verifies(
  "cli.call",
  "a result is printed as it is: text bare, numbers with every digit, the whole with --json",
  async () => {
    const client = new Client(shared());
    expect(await client.ok("call", "tool", "text")).toBe("two\nlines\n");
    expect(await client.ok("call", "tool", "big")).toBe('{\n  "n": 12345678901234567890123\n}\n');
    const { code, stdout } = await client.run("call", "tool", "big", "--json");
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^\{"run_id":"[0-9a-f-]{36}","result":\{"n":12345678901234567890123\},"run_time_ms":[\d.]+\}\n$/,
    );
  },
);

verifies(
  "cli.call",
  "a function that fails, or answers with an error status, ends the command with 1",
  async () => {
    const client = new Client(shared());
    const failed = await client.run("call", "tool", "fail");
    expect(failed).toMatchObject({ code: 1, stdout: "" });
    expect(failed.stderr).toMatch(
      /^millrace: ValueError: no such model\n  → millrace logs tool --run [0-9a-f-]{36}\n$/,
    );
    const refused = await client.run("call", "tool", "refuse");
    expect(refused).toMatchObject({ code: 1, stderr: "" });
    expect(JSON.parse(refused.stdout)).toEqual({ status_code: 404, why: "none" });
  },
);

verifies("cli.call", "what a generator yields is printed as it comes, whatever was asked for", async () => {
  const client = new Client(shared());
  const call = client.start("call", "tool", "count", "upto=2", "pause=30");
  // The second comes half a minute later: what is here now was printed when it came.
  await call.printed(/^Number 0$/m);
  expect(await call.interrupt()).toBe(130);
  expect(await client.ok("call", "tool", "count", "upto=2", "--stream")).toBe("Number 0\nNumber 1\n");
  expect(await client.ok("call", "tool", "text", "--stream")).toBe("two\nlines\n");
  expect(await client.ok("call", "tool", "count", "upto=2", "--json")).toBe(
    '{"data":"Number 0"}\n{"data":"Number 1"}\n',
  );
});

test("a stream that fails on the way prints what came, says why, and ends with 1", async () => {
  const { code, stdout, stderr } = await new Client(shared()).run("call", "tool", "break_off");
  expect([code, stdout]).toEqual([1, "one\n"]);
  expect(stderr).toContain("millrace: ValueError: halfway");
});

verifies(["cli.call", "terms.clients"], "--async asks of the queue what its options say", async () => {
  const client = new Client(shared());
  const asking = ["--priority", "low", "--delay", "1h", "--max-attempts", "2", "--tag", "x", "--tag", "y z"];
  const id = (await client.ok("call", "tool", "--async", "a=1", ...asking)).trim();
  const shown = await client.ok("runs", "get", "tool", id);
  expect(shown).toMatch(/tags +x, y z/);
  expect(shown).toMatch(/priority +-600 s of head start/);
  expect(await client.ok("runs", "list", "tool", "--tag", "y z")).toContain(id);
  expect(await client.ok("runs", "list", "tool", "--tag", "z")).not.toContain(id);
  const alone = await client.run("runs", "list", "--tag", "x");
  expect(alone.stderr).toContain("--tag needs the name of an app");
  const other = (await client.ok("call", "tool", "--async", "a=1", "--delay", "1h")).trim();
  // As from a variable of a script that is not set.
  for (const command of ["list", "cancel"]) {
    const { code, stderr } = await client.run("runs", command, "tool", "--tag", "");
    expect([code, stderr]).toEqual([2, expect.stringContaining("--tag is empty")]);
  }
  expect(await client.ok("runs", "cancel", "tool", "--tag", "x", "--yes")).toBe("1 run is cancelled.\n");
  expect(await client.ok("runs", "cancel", "tool", "--tag", "x", "--yes")).toBe("0 runs are cancelled.\n");
  expect(await client.ok("runs", "cancel", "tool", other)).toBe(`run ${other} is cancelled.\n`);
  for (const words of [[], [id, "--tag", "x"]])
    expect((await client.run("runs", "cancel", "tool", ...words)).stderr).toContain("name the run to cancel");
});

verifies("cli.call", "--async prints the run's id, and --wait its result", async () => {
  const client = new Client(shared());
  const id = (await client.ok("call", "tool", "--async", "a=1")).trim();
  expect(id).toMatch(/^[0-9a-f-]{36}$/);
  const waited = await client.ok("call", "tool", "--async", "--wait", "a=1");
  expect(JSON.parse(waited)).toEqual({ a: 1 });
  const streamed = await client.ok("call", "tool", "count", "upto=2", "--async", "--wait");
  expect(streamed).toBe("Number 0\nNumber 1\n");
  const failed = await client.run("call", "tool", "fail", "--async", "--wait");
  expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining("ValueError: no such model")]);
});

verifies("cli.call.functions", "a function that is not there is answered with those that are", async () => {
  const { code, stderr } = await new Client(shared()).run("call", "tool", "nope");
  expect([code, stderr]).toEqual([
    1,
    "millrace: The app has no such function; it has run, text, big, refuse, fail, count, break_off, slow\n",
  ]);
});

verifies("cli.call", "--webhook has the answer forwarded", async () => {
  const target = await WebhookTarget.open();
  const client = new Client(shared());
  await client.ok("call", "tool", "a=1", "--async", "--webhook", target.url);
  await target.has(1);
  expect(JSON.parse(String(target.received[0]?.body))).toMatchObject({ result: { a: 1 } });
});

verifies(
  "cli.call",
  "Ctrl-C cancels the run that was called: waiting, streaming or in the background",
  async () => {
    const test = shared();
    const client = new Client(test);
    for (const words of [["slow"], ["slow", "--async", "--wait"], ["count", "upto=3", "pause=60"]]) {
      const before = await newestRun(test);
      const call = client.start("call", "tool", ...words);
      // A light run is written down at its end: the app's own line, or the first chunk, says that it has begun.
      if (words.includes("--async")) await until("the run", async () => (await newestRun(test)) !== before);
      else if (words[0] === "slow")
        await until("slow begins", () => test.logs.some(({ text }) => text === "slow begins"));
      else await call.printed(/Number 0/);
      test.logs.length = 0;
      expect([words, await call.interrupt()]).toEqual([words, 130]);
      expect(call.stderr).not.toContain("    at ");
      await until("cancelled", async () => (await stateOfNewest(test)) === "cancelled");
    }
  },
);

test("what is typed wrongly ends with 2, and nothing is sent", async () => {
  const client = new Client(null, { MILLRACE_URL: "http://127.0.0.1:1", MILLRACE_TOKEN: "t" });
  for (const [words, message] of [
    [["--data", "{"], "--data is not JSON"],
    [["--data", "[1]"], "--data must be a JSON object"],
    [["--data", "@nowhere.json"], "nowhere.json cannot be read: ENOENT"],
    [["run", "novalue"], '"novalue" is not key=value'],
    [["a=1", "a=2"], '"a" is given twice'],
    [["--wait"], "--wait only works with --async"],
    [["--max-attempts", "2"], "--max-attempts only works with --async"],
    [["--tag", "x"], "--tag only works with --async"],
    [["not-a-name"], "neither a function's name nor key=value"],
  ] as const) {
    const { code, stderr } = await client.run("call", "tool", ...words);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  }
});

async function newestRun(test: ReturnType<typeof shared>): Promise<string | undefined> {
  return (await runsOf(test))[0]?.id;
}

async function stateOfNewest(test: ReturnType<typeof shared>): Promise<string | undefined> {
  return (await runsOf(test))[0]?.state;
}

async function runsOf({ service, apps }: ReturnType<typeof shared>) {
  await service.settle();
  return await service.store.runs.list({ appNumber: apps.get("tool")!.app.number, limit: 1 });
}
