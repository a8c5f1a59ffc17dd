import { writeFileSync } from "node:fs";
import { expect } from "vitest";
import { seriousFaults } from "../../support/axe.ts";
import { card, inDialog, sharedDashboard } from "../../support/dashboard-site.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { bundleFile, ended, ledger, MAIN, submit } from "../async/site.ts";

const TOML = '[scaling]\nmax_replicas = 1\n[queue]\nconcurrency_limit = 4\nrate_limit = "100/1m"\n';
const { service, open } = sharedDashboard({ line: { main: MAIN, toml: TOML } });

verifies(
  ["queue.page", "queue.expected", "dashboard.axe"],
  "an app's queue is shown and paused, a waiting run's page has its place, and what waits is cancelled",
  async () => {
    const hold = { functionName: "hold" };
    const first = await submit(service(), "line", { n: 0 }, hold);
    await until("it runs", () => ledger(service(), "line").includes("0"));
    const ids = [];
    for (const n of [1, 2, 3]) ids.push(await submit(service(), "line", { n }, hold));

    const { page, complaints } = await open("/apps/line/queue");
    const queue = card(page, "Queue");
    await queue.getByText("Waiting", { exact: true }).locator("..").getByText("3").waitFor();
    await card(page, "Limits").getByText("100 per 60 s").waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    if (process.env["SHOTS"])
      await page.screenshot({ path: `${process.env["SHOTS"]}/queue.png`, fullPage: true });
    await queue.getByRole("button", { name: "Pause" }).click();
    await queue.getByText("paused", { exact: true }).waitFor();
    await queue.getByRole("button", { name: "Resume" }).click();
    await queue.getByRole("button", { name: "Pause" }).waitFor();

    const run = await open(`/apps/line/runs/${ids[1]}`);
    const place = card(run.page, "Waiting for its turn");
    await place.getByText("Position in the queue").locator("..").getByText("2").waitFor();
    if (process.env["SHOTS"])
      await run.page.screenshot({ path: `${process.env["SHOTS"]}/waiting-run.png`, fullPage: true });

    const list = await open("/apps/line/runs?status=queued");
    await list.page.getByRole("button", { name: "Cancel…" }).click();
    await list.page.getByRole("dialog").getByText("3 runs match.").waitFor();
    expect(await seriousFaults(list.page)).toEqual([]);
    if (process.env["SHOTS"])
      await list.page.screenshot({ path: `${process.env["SHOTS"]}/bulk-cancel.png`, fullPage: true });
    await inDialog(list.page, "Cancel").click();
    for (const id of ids) expect((await ended(service(), "line", id)).status).toBe("cancelled");
    writeFileSync(bundleFile(service(), "line", "go"), "");
    await ended(service(), "line", first);
    expect([...complaints, ...run.complaints, ...list.complaints]).toEqual([]);
  },
);
