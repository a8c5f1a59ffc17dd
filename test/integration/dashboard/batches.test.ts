import { expect } from "vitest";
import { seriousFaults } from "../../support/axe.ts";
import { inDialog, says, sharedDashboard } from "../../support/dashboard-site.ts";
import { verifies } from "../../verifies.ts";
import { accepted, endedBatch, MAIN, numbers } from "../batches/batch-site.ts";

const { service, open } = sharedDashboard({
  lines: { main: MAIN },
  none: { main: "def run():\n    return 1\n" },
});

verifies(
  ["batches.page", "dashboard.axe"],
  "an app's pages show its batches, cancel one and run the failures of one again",
  async () => {
    const id = await accepted(service(), "lines", numbers(4), { functionName: "fail_odd" });
    await endedBatch(service(), "lines", id);
    const { page, complaints } = await open("/apps/lines/batches");
    await page.getByRole("link", { name: `Batch ${id}` }).click();
    await page.getByText("4 of 4 lines have ended").waitFor();
    await page.getByText("completed", { exact: true }).waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    const download = page.waitForEvent("download");
    await page.getByRole("button", { name: "Save results", exact: true }).click();
    expect((await download).suggestedFilename()).toBe(`${id}.jsonl`);
    await says(page, "The failed lines run again.", () =>
      page.getByRole("button", { name: "Retry failures", exact: true }).click(),
    );
    await page.getByText("2 of 2 lines have ended").waitFor();
    const held = await accepted(service(), "lines", numbers(3), { functionName: "hold" });
    const { page: other } = await open(`/apps/lines/batches/${held}`);
    await other.getByRole("button", { name: "Cancel", exact: true }).click();
    await inDialog(other, "Cancel batch").click();
    await other.getByText("cancelled", { exact: true }).waitFor();
    expect(complaints).toEqual([]);
  },
);

verifies("batches.page", "the page of an app without batches says how to send one", async () => {
  const { page } = await open("/apps/none/batches");
  await page.getByText("No batches yet").waitFor();
});
