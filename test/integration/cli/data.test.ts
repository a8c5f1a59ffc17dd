import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { randomBytes } from "node:crypto";
import path from "node:path";
import { expect, test } from "vitest";
import { asOwner } from "../../support/as-owner.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget, MODES } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "./client.ts";

const MAIN = "import os\n\n\ndef run():\n    return os.environ.get('API_KEY')\n";
const shared = sharedService({ tool: { main: MAIN } }, { webhookAllow: "127.0.0.0/8" });

verifies(
  "cli.secrets",
  "secrets are set, listed without their values, reach the app, and are unset",
  async () => {
    const client = new Client(shared());
    await client.ok("secrets", "set", "API_KEY=s3=cret", "OTHER=1", "--app", "tool");
    const listed = await client.ok("secrets", "list", "--app", "tool");
    expect(listed).toMatch(/^NAME +VALUE\nAPI_KEY +•+\nOTHER +•+\n$/);
    expect(await client.ok("call", "tool")).toBe("s3=cret\n");
    expect(await client.json("secrets", "list")).toEqual([]);

    expect((await client.pipe("from a pipe\n", "secrets", "set", "--stdin", "PIPED")).code).toBe(0);
    writeFileSync(path.join(client.cwd, ".env"), "# comment\nFILED='from a file'\n");
    await client.ok("secrets", "set", "--env-file", ".env");
    expect(await client.json("secrets", "list", "--show")).toEqual([
      { name: "FILED", value: "from a file" },
      { name: "PIPED", value: "from a pipe" },
    ]);

    await client.ok("secrets", "unset", "OTHER", "--app", "tool");
    expect(await client.json("secrets", "list", "--app", "tool")).toEqual([{ name: "API_KEY" }]);
    const missing = await client.run("secrets", "unset", "NOWHERE");
    expect([missing.code, missing.stderr]).toEqual([
      1,
      expect.stringContaining("there is no secret NOWHERE"),
    ]);
  },
);

verifies(
  "cli.files",
  "a file goes up in parts and comes back byte for byte; a folder goes whole",
  async () => {
    const client = new Client(shared());
    // More than one part.
    const weights = randomBytes(17 * 1024 * 1024);
    writeFileSync(path.join(client.cwd, "weights.bin"), weights);
    mkdirSync(path.join(client.cwd, "set/deep"), { recursive: true });
    writeFileSync(path.join(client.cwd, "set/a.txt"), "a");
    writeFileSync(path.join(client.cwd, "set/deep/empty"), "");
    expect(await client.ok("files", "cp", "weights.bin", "models/")).toBe("models/weights.bin  17.8 MB\n");
    await client.ok("files", "cp", "set");
    expect(await client.ok("files", "ls")).toMatch(/^NAME +SIZE +MODIFIED\nmodels\/ +– .*\nset\/ +– .*\n$/);
    const entries = await client.json("files", "ls", "set/deep");
    expect(entries).toEqual([expect.objectContaining({ name: "empty", size_bytes: 0 })]);

    await client.ok("files", "download", "models/weights.bin", "back.bin");
    expect(readFileSync(path.join(client.cwd, "back.bin")).equals(weights)).toBe(true);
    const again = await client.run("files", "download", "models/weights.bin", "back.bin");
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining("add --force")]);
    expect(await client.ok("files", "download", "set/a.txt", "-")).toBe("a");

    const asked = await client.run("files", "rm", "set/");
    expect([asked.code, asked.stderr]).toEqual([2, expect.stringContaining("add --yes")]);
    await client.ok("files", "rm", "set/", "--yes");
    await client.ok("files", "rm", "models/weights.bin");
    expect(await client.json("files", "ls", "models")).toEqual([]);
  },
);

test("files that are not there are named, here and there", async () => {
  const client = new Client(shared());
  const here = await client.run("files", "cp", "nowhere.bin");
  expect([here.code, here.stderr]).toEqual([2, "millrace: there is no file or folder nowhere.bin\n"]);
  const there = await client.run("files", "download", "nowhere.bin");
  expect([there.code, there.stderr]).toEqual([1, expect.stringMatching(/^millrace: .*\n$/)]);
});

test("deliveries are listed, shown with their attempts, and sent again", async () => {
  const target = await WebhookTarget.open(MODES[500]);
  const client = new Client(shared());
  const id = (await client.ok("call", "tool", "--async", "--webhook", target.url)).trim();
  await target.has(1);
  type Item = { readonly item: { readonly state: string; readonly attempts: readonly object[] } };
  const delivery = async (): Promise<Item["item"]> => {
    const { projectId } = shared().service.owner;
    return (await asOwner(shared())<Item>("GET", `/v2/projects/${projectId}/deliveries/${id}`)).item;
  };
  await until("the attempt is on record", async () => (await delivery()).attempts.length > 0);
  expect(await client.ok("webhook", "deliveries", "--state", "pending")).toContain(id);
  expect(await client.ok("webhook", "deliveries", id)).toMatch(/^TRY +WHEN +TOOK +ANSWER\n1 .* 500$/m);
  target.behave = MODES.ok;
  await client.ok("webhook", "redeliver", id);
  await until("it is delivered", async () => (await delivery()).state === "delivered");
  expect(await client.ok("webhook", "redeliver", "--from", "2020-01-01T00:00:00Z")).toBe(
    "1 queued to be sent again.\n",
  );
  const neither = await client.run("webhook", "redeliver");
  expect([neither.code, neither.stderr]).toEqual([2, expect.stringContaining("name one run")]);
});
