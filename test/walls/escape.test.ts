import { readdirSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import type { Verdict } from "../../src/cli/operator/escape/verdict.ts";
import { readEscapeReport } from "../../src/host/walls/escape-report.ts";
import { Command, MILLRACE, run, serve } from "../support/command-line.ts";
import { untouchedPlace } from "../support/untouched-place.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

verifies("cli.escape", "Ctrl-C in the middle of it ends and removes everything it made", async () => {
  const { env, temporary } = untouchedPlace();
  const command = new Command(MILLRACE, ["doctor", "--escape"], { env });
  // The last thing that it makes before the hostile app is deployed.
  const isBegun = (): boolean => readdirSync(temporary).some((name) => name.startsWith("millrace-victim-"));
  await until("it has begun", isBegun);
  expect(await command.interrupt()).toBe(130);
  await until("the victim has cleaned up", () => readdirSync(temporary).length === 0);
  expect(command.stdout).toBe("");
});

verifies(
  "cli.escape",
  "a running service is attacked by an app of its own name, which is gone after it; the report is kept",
  async () => {
    const { temporary, dataDir } = untouchedPlace();
    const env = { TMPDIR: temporary, XDG_RUNTIME_DIR: temporary };
    const none = await run(MILLRACE, ["doctor", "--escape", "--running", "--data-dir", dataDir], { env });
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining("no service runs on")]);
    await serve(dataDir, { ...env, MILLRACE_ISOLATION: "auto" });
    const asked = ["--running", "--json", "--data-dir", dataDir];
    const { code, stdout, stderr } = await run(MILLRACE, ["doctor", "--escape", ...asked], { env });
    const verdict = JSON.parse(stdout) as Verdict;
    expect([code, stderr, verdict.failures]).toEqual([0, "", []]);
    expect(verdict.tried).toBeGreaterThanOrEqual(120);
    expect(verdict).toMatchObject({ real_level: verdict.claimed_level });
    expect(readEscapeReport(dataDir)).toMatchObject({
      claimed: verdict.claimed_level,
      tried: verdict.tried,
      stopped: verdict.stopped,
    });
    const listed = await run(MILLRACE, ["apps", "list", "--json"], {
      env: { ...env, MILLRACE_DATA_DIR: dataDir },
    });
    expect(JSON.parse(listed.stdout)).toEqual([]);
    const [project, ...others] = readdirSync(path.join(dataDir, "storage"));
    expect([others, readdirSync(path.join(dataDir, "storage", project ?? ""))]).toEqual([[], []]);
  },
);
