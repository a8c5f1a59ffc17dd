import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { MILLRACE, bootstrap, run, scratchDirectory } from "../../support/command-line.ts";
import { hiddenIn } from "../../support/hidden-characters.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "./client.ts";
import { atTerminal } from "./terminal.ts";

/** What a terminal obeys or does not show: a title, a clipboard, a colour, a cursor, and single characters. */
const ORDERS = [
  "\u001b]0;owned\u0007",
  "\u001b]52;c;b3duZWQ=\u0007",
  "\u001b[31m",
  "\u001b[2J",
  "\r",
  "\b",
  "\u009b2J",
  "\u202e",
  "\u2067",
  "\u200f",
  "\u061c",
  "\u200b",
  "\ufeff",
  "\u{e0041}",
];
const HOSTILE = `begin ${ORDERS.join(" ")} end`;

const MAIN = `
import json
TEXT = json.loads(${JSON.stringify(JSON.stringify(HOSTILE))})

def run():
    raise ValueError(TEXT)

def prints():
    print(TEXT)
    print("a\\nb")

def says():
    return TEXT

def nested():
    return {"deep": [TEXT]}

def yields():
    yield TEXT
`;

const service = sharedService({ app: { main: MAIN } });

verifies(
  "hardening.steering",
  "what an app or another person wrote does not steer the terminal",
  async () => {
    const client = new Client(service());
    const { baseUrl, owner } = service().service;
    const { storageDir } = placesOf(service().settings.dataDir, owner.projectId);
    mkdirSync(storageDir, { recursive: true });
    writeFileSync(path.join(storageDir, `file ${HOSTILE}`), "");
    writeFileSync(path.join(storageDir, "two\nlines"), "");
    const made = await fetch(`${baseUrl}/v2/projects`, {
      method: "POST",
      headers: { authorization: `Bearer ${owner.token}`, "content-type": "application/json" },
      body: JSON.stringify({ name: "turned \u202e round" }),
    });
    expect([200, 400, 403]).toContain(made.status);
    await service().call("app", {}, { functionName: "prints" });
    await service().service.settle();
    const outputs = [
      await client.run("call", "app"),
      await client.run("logs", "app"),
      await client.run("runs", "list", "app"),
      await client.run("files", "ls"),
      await client.run("files", "download", `file ${HOSTILE}x`),
      await client.run("projects", "list"),
    ];
    for (const { stdout, stderr } of outputs) {
      expect(stdout + stderr).not.toBe("");
      expect(hiddenIn(stdout + stderr)).toEqual([]);
    }
    expect(outputs[0]?.stderr).toContain("ValueError: begin");
    // A name is one line, or it could forge another row.
    expect(outputs[3]?.stdout).not.toMatch(/^lines/m);
  },
);

verifies(
  "hardening.steering",
  "what an app answers does not steer a terminal, and goes into a pipe as it is",
  async () => {
    // The command's own colours would look like the app's.
    const client = new Client(service(), { NO_COLOR: "1" });
    const { stdout } = await client.run("call", "app", "nested", "--async");
    const id = stdout.trim();
    // It ends with the run.
    await client.run("runs", "tail", "app", id);
    for (const args of [
      ["call", "app", "says"],
      ["call", "app", "nested"],
      ["call", "app", "yields"],
      ["runs", "get", "app", id],
    ]) {
      const { code, screen } = await atTerminal(client, args, { columns: 1_000 });
      expect([args, code, hiddenIn(screen)]).toEqual([args, 0, []]);
      expect(screen).toContain("<U+202E>");
    }
    expect((await client.run("call", "app", "says")).stdout).toBe(`${HOSTILE}\n`);
  },
);

verifies(
  "hardening.steering",
  "names that an app has left do not steer the operator's terminal",
  async () => {
    const dataDir = path.join(scratchDirectory(), "data");
    const { fields } = await bootstrap(dataDir);
    const { storageDir } = placesOf(dataDir, fields.project_id);
    mkdirSync(storageDir, { recursive: true });
    symlinkSync("/etc/passwd", path.join(storageDir, `link ${HOSTILE}`));
    const file = path.join(scratchDirectory(), "saved.tar");
    const { code, stdout, stderr } = await run(MILLRACE, ["backup", file, "--data-dir", dataDir]);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("left out");
    expect(hiddenIn(stdout)).toEqual([]);
  },
);

function placesOf(dataDir: string, projectId: string): { storageDir: string } {
  return { storageDir: path.join(dataDir, "storage", projectId) };
}
