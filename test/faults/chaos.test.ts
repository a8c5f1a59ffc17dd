import { existsSync, mkdirSync, readdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import type { Verdict } from "../../src/cli/chaos/reckon.ts";
import { Command, MILLRACE, run, scratchDirectory } from "../support/command-line.ts";
import { verifies } from "../verifies.ts";

/** Settings of somebody who has a service already: chaos must touch none of it. */
function place(): { env: Record<string, string>; dataDir: string; temporary: string } {
  const folder = scratchDirectory();
  const [dataDir, temporary] = [path.join(folder, "data"), path.join(folder, "tmp")];
  mkdirSync(temporary);
  const env = {
    MILLRACE_DATA_DIR: dataDir,
    MILLRACE_DATABASE_URL: "postgres://127.0.0.1:1/none",
    TMPDIR: temporary,
    XDG_RUNTIME_DIR: temporary,
  };
  return { env, dataDir, temporary };
}

verifies(
  "cli.chaos",
  "a replica and a service are killed under load: nothing is lost or stuck, and nothing is left",
  async () => {
    const { env, dataDir, temporary } = place();
    const { code, stdout, stderr } = await run(MILLRACE, ["doctor", "--chaos", "--json"], { env });
    expect([code, stderr]).toEqual([0, ""]);
    const verdict = JSON.parse(stdout) as Verdict;
    expect(verdict).toMatchObject({ lost: 0, stuck: 0, finished: verdict.accepted });
    expect(verdict.accepted).toBeGreaterThan(20);
    expect(verdict.sync_calls.answered).toBeGreaterThan(20);
    // Each kill met a run, or it proved nothing.
    expect(verdict.duplicated).toBeGreaterThanOrEqual(2);
    expect([readdirSync(temporary), existsSync(dataDir)]).toEqual([[], false]);
  },
);

verifies("cli.chaos", "Ctrl-C in the middle of it ends everything it started", async () => {
  const { env, temporary } = place();
  const command = new Command(MILLRACE, ["doctor", "--chaos"], { env });
  await command.printed(/async and sync calls begin/);
  expect(await command.interrupt()).toBe(130);
  expect(readdirSync(temporary)).toEqual([]);
  expect(command.stdout).toBe("");
});
