import { expect } from "vitest";
import { writeEscapeReport } from "../../../src/host/walls/escape-report.ts";
import { sharedDashboard } from "../../support/dashboard-site.ts";
import { verifies } from "../../verifies.ts";

const { service, open } = sharedDashboard({}, { isolation: "none" });

const REPORT = {
  at: new Date().toISOString(),
  version: "1.0.0",
  claimed: "userns",
  real: "landlock",
  tried: 210,
  stopped: 208,
  failures: ["see that the master key exists", "<b>bold</b>"],
} as const;

verifies(
  "dashboard.isolation",
  "the settings show the level, and the last test of it with its failures",
  async () => {
    const { page, complaints } = await open("/settings");
    const card = page.locator("section", { has: page.getByRole("heading", { name: "Isolation of apps" }) });
    await card.getByText("none yet: run millrace doctor --escape").waitFor();
    expect(await card.getByText("none", { exact: true }).count()).toBe(1);
    writeEscapeReport(service().settings.dataDir, { ...REPORT, failures: [...REPORT.failures] });
    await page.reload();
    await card.getByText("the claim does not hold").waitFor();
    await card.getByText("208 of 210 attacks stopped; claimed userns, real landlock").waitFor();
    const failures = await card.getByRole("list", { name: "Attacks that were not stopped" }).innerText();
    expect(failures.split("\n")).toEqual(REPORT.failures);
    expect(complaints).toEqual([]);
  },
);
