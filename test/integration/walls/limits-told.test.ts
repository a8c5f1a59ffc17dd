import path from "node:path";
import { expect } from "vitest";
import { readSettings } from "../../../src/config/settings.ts";
import { LIMITS } from "../../../src/host/limits/limits.ts";
import { enforcementOf } from "../../../src/host/limits/host-limits.ts";
import { checkLimits } from "../../../src/cli/operator/doctor/host-checks.ts";
import { MILLRACE, run } from "../../support/command-line.ts";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

type Told = { readonly check: string; readonly status: string; readonly message: string };

verifies("walls.limits.told", "/readyz?verbose and doctor tell of each limit, and of the same", async () => {
  const service = await testService({}, { maxProjectStorage: "1GB" });
  const answer = await fetch(`${service.service.baseUrl}/readyz?verbose`);
  const { appLimits } = (await answer.json()) as { appLimits: Record<string, string> };
  expect(Object.keys(appLimits)).toEqual([...LIMITS]);
  for (const told of Object.values(appLimits)) expect(told).toMatch(/^(enforced by|not enforced:) /);
  expect(appLimits["storage"]).toContain("enforced by");
  // Without walls.
  expect(appLimits["open_files"]).toContain("MILLRACE_ISOLATION");
  const { stdout } = await run(MILLRACE, ["doctor", "--json"], {
    env: {
      MILLRACE_DATA_DIR: path.join(service.directory, "data"),
      MILLRACE_CONTAINER_ENGINE: "none",
    },
  });
  const found = (JSON.parse(stdout) as Told[]).find(({ check }) => check === "limits");
  for (const name of LIMITS) expect(found?.message).toContain(`${name.replace("_", " ")}: `);
  expect(found?.message).toContain("storage: enforced by");
});

verifies(
  "walls.limits.told",
  "where the host gives nothing, what it lacks is said, and how to get it",
  async () => {
    const { settings } = readSettings({ flags: {}, env: {} });
    const lacking = new Map([["cpu", "its control group has no controllers cpu"]] as const);
    const enforcement = enforcementOf({ hierarchy: null, lacking }, settings, null);
    const { status, message, remedy } = await checkLimits(
      settings,
      { python: null, offer: null, level: null },
      enforcement,
    );
    expect(status).toBe("warn");
    expect(message).toContain("memory: enforced by a watcher");
    expect(message).toContain("cpu: not enforced (its control group has no controllers cpu)");
    expect(message).toContain("storage: no limit is set: MILLRACE_MAX_PROJECT_STORAGE sets one");
    expect(remedy).toContain("Delegate=yes");
    expect(remedy).toContain("MILLRACE_ISOLATION");
  },
);
