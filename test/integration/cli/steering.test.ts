import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { MILLRACE, bootstrap, run, scratchDirectory } from "../../support/command-line.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "./client.ts";

/** What a terminal obeys: a title, a clipboard, a colour, a cursor, the eight-bit forms, text turned round. */
const ORDERS = [
  "\u001b]0;owned\u0007",
  "\u001b]52;c;b3duZWQ=\u0007",
  "\u001b[31m",
  "\u001b[2J",
  "\r",
  "\b",
  "\u009b2J",
  "\u202e",
];
const HOSTILE = `begin ${ORDERS.join(" ")} end`;
// oxlint-disable-next-line no-control-regex
const STEERS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/;

const MAIN = `
import json
TEXT = json.loads(${JSON.stringify(JSON.stringify(HOSTILE))})

def run():
    raise ValueError(TEXT)

def prints():
    print(TEXT)
    print("a\\nb")
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
      expect((stdout + stderr).match(STEERS)).toBeNull();
    }
    expect(outputs[0]?.stderr).toContain("ValueError: begin");
    // A name is one line, or it could forge another row.
    expect(outputs[3]?.stdout).not.toMatch(/^lines/m);
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
    expect(stdout.match(STEERS)).toBeNull();
  },
);

function placesOf(dataDir: string, projectId: string): { storageDir: string } {
  return { storageDir: path.join(dataDir, "storage", projectId) };
}
