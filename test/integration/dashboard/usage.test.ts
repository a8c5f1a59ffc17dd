import { expect } from "vitest";
import { seriousFaults } from "../../support/axe.ts";
import { card, sharedDashboard } from "../../support/dashboard-site.ts";
import { verifies } from "../../verifies.ts";

const { service, open } = sharedDashboard({
  hello: { main: "def run(fail=False):\n    return 1 / (0 if fail else 1)\n" },
});

verifies(
  ["usage.page", "dashboard.axe"],
  "the page Usage has what each day and app used, by token and tag too, and as CSV",
  async () => {
    for (const fail of [false, false, true]) await service().call("hello", { fail });
    await service().service.settle();
    const { page, complaints } = await open("/usage");
    const all = card(page, "All together");
    await all.getByText("Calls", { exact: true }).locator("..").getByText("3").waitFor();
    await all.getByText("Failed", { exact: true }).locator("..").getByText("1").waitFor();
    const rows = page.getByRole("region", { name: "Usage by app" });
    await rows.getByRole("cell", { name: "hello" }).waitFor();
    await page.getByLabel(/Calls, day by day from .*; 3 in all\./).waitFor();
    expect(await seriousFaults(page)).toEqual([]);

    await page.getByRole("link", { name: "by token" }).click();
    await page
      .getByRole("region", { name: "Usage by token" })
      .getByRole("cell", { name: "3" })
      .first()
      .waitFor();
    await page.getByRole("link", { name: "by tag" }).click();
    await page.getByText("No tags in these days").waitFor();
    await page.getByRole("link", { name: "7 days" }).click();
    expect(new URL(page.url()).search).toBe("?days=7&by=tag");
    await page.getByRole("link", { name: "by app" }).click();
    const saving = page.waitForEvent("download");
    await page.getByRole("button", { name: "Save as CSV" }).click();
    const saved = await saving;
    expect(saved.suggestedFilename()).toMatch(/^usage-p-\w+-[\d-]+\.csv$/);
    expect(complaints).toEqual([]);
  },
);
