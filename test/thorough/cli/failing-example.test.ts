import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { BUILT_PACKAGE, Command, scratchDirectory, serviceEnvironment } from "../../support/command-line.ts";

test("an example that cannot be deployed is told with the reason, and the others serve", async () => {
  const copy = scratchDirectory();
  for (const name of readdirSync(BUILT_PACKAGE)) {
    const [from, to] = [path.join(BUILT_PACKAGE, name), path.join(copy, name)];
    if (["bin", "dist", "package.json"].includes(name)) cpSync(from, to, { recursive: true });
    else if (name !== "examples") symlinkSync(from, to);
  }
  cpSync(path.join(BUILT_PACKAGE, "examples/hello"), path.join(copy, "examples/hello"), { recursive: true });
  mkdirSync(path.join(copy, "examples/broken"));
  writeFileSync(path.join(copy, "examples/broken/millrace.toml"), "[scaling]\ncooldown = -1\n");
  const env = serviceEnvironment(path.join(copy, "data"));
  const command = new Command(path.join(copy, "bin/millrace"), ["start"], { cwd: copy, env });
  await command.printed(/Ctrl-C stops it/);
  expect(command.stderr).toMatch(/^warning: the example broken cannot be deployed here: /m);
  expect(command.stderr).toContain("scaling.cooldown must be a duration from 0s to 1h, got -1");
  const [, url = "", token = ""] = /'(\S+\/hello\/run)'[^]*?Bearer (\S+)'/.exec(command.stdout) ?? [];
  const answer = await fetch(url, { method: "POST", headers: { authorization: `Bearer ${token}` } });
  expect(answer.status).toBe(200);
  await command.interrupt();
});
