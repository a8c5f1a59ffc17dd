import { createWriteStream, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { Command, MILLRACE, run } from "../../support/command-line.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { bundleFile } from "../async/site.ts";
import { MAIN } from "../batches/batch-site.ts";
import { Client, type Ran } from "./client.ts";

const shared = sharedService({ tool: { main: MAIN, toml: "[scaling]\nmax_replicas = 2\n" } });

type Line = { readonly index: number; readonly status: string; readonly result?: unknown };

function linesOf(text: string): Line[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line);
}

/** Runs it with a file as its input. */
async function fed({ cwd, env }: Client, input: string, ...args: string[]): Promise<Ran> {
  writeFileSync(path.join(cwd, "inputs.jsonl"), input);
  const line = ["-c", '"$@" < inputs.jsonl', "sh", MILLRACE, ...args];
  return await run("sh", line, { cwd, env });
}

verifies("cli.map", "each line of stdin is an input, and each has its result, in their order", async () => {
  const client = new Client(shared());
  const inputs = '\ufeff{"n":1}\r\n\n{"n":12345678901234567890}\n{"n":3}';
  const { code, stdout, stderr } = await fed(client, inputs, "map", "tool");
  expect([code, stderr]).toEqual([0, ""]);
  expect(linesOf(stdout).map(({ index, status }) => [index, status])).toEqual([
    [0, "success"],
    [1, "success"],
    [2, "success"],
  ]);
  // Every digit, in both directions.
  expect(stdout).toContain('"result":24691357802469135780}');
  const whole = '{"id":"a","input":{"n":4},"tag":"x"}\n';
  const named = await fed(client, whole, "map", "tool", "run", "--lines", "--order", "finished");
  expect(linesOf(named.stdout)).toMatchObject([{ id: "a", result: 8 }]);
  const [batch] = await client.json("batches", "list", "tool", "--limit", "1");
  expect(batch).toMatchObject({ status: "completed", total: 1, succeeded: 1 });
});

verifies("cli.map", "the runs wait in the line that is named", async () => {
  const client = new Client(shared());
  const { stdout } = await fed(client, '{"n":1}\n', "map", "tool", "--fairness-key", "customer-9");
  const { run_id: runId } = JSON.parse(stdout) as { run_id: string };
  expect((await shared().ofRun("tool", runId)).json).toMatchObject({ fairnessKey: "customer-9" });
});

verifies("cli.map", "lines that fail are results too, and the command says how many there are", async () => {
  const client = new Client(shared());
  const inputs = '{"n":1}\nno json\n{"n":2}},"id":1,"x":{"y":1\n5\n{"n":2}\n';
  const failed = await fed(client, inputs, "map", "tool", "fail_odd");
  expect(failed.code).toBe(1);
  expect(linesOf(failed.stdout)).toMatchObject([
    { error: { code: "app_error" } },
    { error: { code: "invalid_json" } },
    { error: { code: "invalid_json" } },
    { error: { code: "invalid_json" } },
    { result: 2 },
  ]);
  expect(failed.stderr).toMatch(
    /^millrace: 4 of 5 lines failed\n {2}→ .*millrace batches retry tool [0-9a-f-]{36} /,
  );
  const [first] = await client.json("batches", "list", "tool", "--limit", "1");
  writeFileSync(bundleFile(shared(), "tool", "mended"), "");
  const again = await client.json("batches", "retry", "tool", first.id);
  expect(again).toMatchObject({ retryOf: first.id, total: 1 });
  const results = await client.ok("batches", "results", "tool", again.id, "--wait");
  expect(linesOf(results)).toMatchObject([{ id: 0, result: 1 }]);
  const refused = await fed(client, inputs, "map", "none", "--json");
  expect([refused.code, refused.stderr]).toEqual([1, ""]);
  expect(JSON.parse(refused.stdout)).toMatchObject({ error: { code: "app_not_found" } });
  expect((await fed(client, "\n", "map", "tool")).stderr).toContain("no lines");
  expect((await client.run("map", "tool", "--resume", "x")).code).toBe(2);
});

verifies("cli.map.resume", "a command that is interrupted while the lines run can be continued", async () => {
  const client = new Client(shared());
  writeFileSync(path.join(client.cwd, "inputs.jsonl"), '{"n":1}\n{"n":2}\n');
  const command = new Command("sh", ["-c", 'exec "$0" map tool hold < inputs.jsonl', MILLRACE], client);
  const newest = async () => (await client.json("batches", "list", "tool", "--limit", "1"))[0];
  await until(
    "the lines run",
    async () => (await newest())?.functionName === "hold" && (await newest()).running > 0,
  );
  expect(await command.interrupt()).toBe(130);
  const { id } = await newest();
  expect(command.stderr).toContain(`map tool --resume ${id} prints its results`);
  const [record] = await client.json("batches", "list", "tool", "--limit", "1");
  expect(record).toMatchObject({ id, status: "running" });
  writeFileSync(bundleFile(shared(), "tool", "go"), "");
  expect(linesOf(await client.ok("map", "tool", "--resume", id))).toMatchObject([
    { result: 1 },
    { result: 2 },
  ]);
  expect(await client.ok("batches", "get", "tool", id)).toMatch(
    /^batch +\S+\ncalls +hold\nstatus +completed\nlines +2 of 2 lines\n/,
  );
});

verifies("cli.map.resume", "a command that is interrupted while it sends goes on where it was", async () => {
  const client = new Client(shared());
  const pipe = path.join(client.cwd, "pipe");
  await run("mkfifo", [pipe], client);
  const command = new Command("sh", ["-c", 'exec "$0" map tool < pipe', MILLRACE], client);
  const writer = createWriteStream(pipe);
  const newest = async () => (await client.json("batches", "list", "tool", "--limit", "1"))[0];
  let inputs = "";
  let count = 0;
  await until("lines are stored", async () => {
    const line = `{"n":${count++}}\n`;
    inputs += line;
    writer.write(line);
    return (await newest())?.status === "uploading";
  });
  expect(await command.interrupt()).toBe(130);
  writer.destroy();
  const [, key] = /--resume (map-[0-9a-f]{32}),/.exec(command.stderr) ?? [];
  inputs += `{"n":${count++}}\n`;
  const resumed = await fed(client, inputs, "map", "tool", "--resume", key ?? "");
  expect(linesOf(resumed.stdout).map(({ result }) => result)).toEqual(
    Array.from({ length: count }, (_, n) => n * 2),
  );
  const { id } = await newest();
  const again = await fed(client, inputs, "map", "tool", "--resume", key ?? "", "--async");
  expect(again.stdout).toBe(`${id}\n`);
  const cancelled = await client.run("batches", "cancel", "tool", id);
  expect([cancelled.code, cancelled.stderr]).toEqual([1, expect.stringContaining("already ended")]);
});
