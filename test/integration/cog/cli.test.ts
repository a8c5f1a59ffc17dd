import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "../cli/client.ts";
import { MODEL } from "./site.ts";

const shared = sharedService();

function write(folder: string, files: Readonly<Record<string, string>>): void {
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(folder, name), text);
}

verifies("cog.cli", "millrace deploy takes a Cog folder, and says what it took it for", async () => {
  const client = new Client(shared());
  const folder = path.join(client.cwd, "model");
  const taken = "a Cog model: predict.py:Predictor, 4 calls at a time; not used: build.system_packages";
  const yaml = `${MODEL["cog.yaml"]}build:\n  system_packages: [ffmpeg]\nconcurrency:\n  max: 4\n`;
  write(folder, { ...MODEL, "cog.yaml": yaml });
  expect(await client.ok("deploy", "model", "--dry-run")).toContain(
    `A deploy would create the app model:\n  take the folder for ${taken}\n  run as a process`,
  );
  expect(await client.ok("deploy", "model", "--yes")).toMatch(
    new RegExp(`^extract +${taken}\\n(?:.*\\n)*.*✓ model is deployed`, "m"),
  );
  expect(await client.ok("call", "model", "prompt=a cat", "--json")).toContain('"text":"a cat 20 7.5');
  const refused = await client.run("call", "model", "prompt=a cat", "steps=99");
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("steps must be at most 50")]);
  expect(refused.stderr).not.toContain("steps: ");

  write(folder, { "main.py": "def run():\n    return 1\n" });
  const warned = await client.run("deploy", "model", "--dry-run");
  expect(warned.stderr).toContain("cog.yaml is not used, because the folder has a main.py");
  write(path.join(client.cwd, "half"), { "cog.yaml": MODEL["cog.yaml"] ?? "" });
  const half = await client.run("deploy", "half");
  expect(half.stderr).toContain("cog.yaml names predict.py, but the folder has no such file");
});
