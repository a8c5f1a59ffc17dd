import { expect } from "vitest";
import { seriousFaults } from "../../support/axe.ts";
import { card, sharedDashboard } from "../../support/dashboard-site.ts";
import { verifies } from "../../verifies.ts";

const MAIN = "def run(n=0):\n    return n\n";
const TOML = `
[[schedules]]
name = "yearly"
cron = "0 0 1 1 *"
timezone = "Europe/Berlin"
input = { n = 7 }
`;

const { open } = sharedDashboard({ timed: { main: MAIN, toml: TOML }, plain: { main: MAIN } });

verifies(
  ["schedules.page", "dashboard.axe"],
  "an app's page shows its schedules, runs one now, pauses it and resumes it",
  async () => {
    const { page, complaints } = await open("/apps/timed/schedules");
    const shown = card(page, "Schedules");
    await shown.getByText("0 0 1 1 *").waitFor();
    expect(await shown.getByText(/^in \d+ (?:days|h|min)/).count()).toBeGreaterThan(0);
    await shown.getByText("none yet").waitFor();
    expect(await seriousFaults(page)).toEqual([]);

    await shown.getByRole("button", { name: "Run yearly now" }).click();
    await shown.getByText("by hand").waitFor();
    await shown.getByRole("button", { name: "Pause yearly" }).click();
    await shown.getByText("paused", { exact: true }).waitFor();
    await shown.getByRole("button", { name: "Resume yearly" }).click();
    await shown.getByRole("button", { name: "Pause yearly" }).waitFor();
    await shown.getByRole("link", { name: /^Run of .*: success$/ }).click();
    await card(page, "Facts")
      .getByText(/^yearly, /)
      .waitFor();
    expect(complaints).toEqual([]);
  },
);

verifies("schedules.page", "the page of an app without schedules says how to add one", async () => {
  const { page } = await open("/apps/plain/schedules");
  await page.getByText("No schedules yet").waitFor();
  await page.getByText('cron = "0 3 * * *"').waitFor();
});
