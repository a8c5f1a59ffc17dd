import { expect } from "vitest";
import { FakeGpus } from "../../../src/host/gpus/fake.ts";
import { seriousFaults } from "../../support/axe.ts";
import { addressOf, card, sharedDashboard } from "../../support/dashboard-site.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const MAIN = "def setup():\n    pass\n\ndef run():\n    return 1\n";
const TOML = `[hardware]\ncompute = "H100"\ngpu_memory = 60\n[scaling]\ncooldown = 3600\n`;
const app = { main: MAIN, toml: TOML };

const gpus = new FakeGpus([{ count: 1, model: "H100", memoryGb: 80 }]);
gpus.show(0, { usedBytes: 20e9, freeBytes: 60e9 });
const { service, open } = sharedDashboard(
  { one: app, two: app },
  { ...WITHOUT_WALLS, gpuHold: "0s" },
  { gpus },
);

/** How far the page itself can be scrolled sideways. */
const SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth";

verifies(
  ["hardware.app", "dashboard.axe"],
  "an app's page shows how full its GPU is and has been, and which app a replica had to make room for",
  async () => {
    await service().call("one");
    gpus.show(0, { usedBytes: 52e9, freeBytes: 34e9 });
    const { page, complaints } = await open("/apps/one");
    const shown = card(page, "GPUs");
    await shown.getByText(/^52 GB in use of 8/).waitFor();
    await shown.getByText("granted to this app: 60 GB").waitFor();
    const chart = shown.getByRole("slider", { name: "Memory in use" });
    await chart.focus();
    await page.keyboard.press("ArrowRight");
    expect(await chart.getAttribute("aria-valuetext")).toContain("52 GB");
    expect(await seriousFaults(page)).toEqual([]);

    gpus.show(0, { usedBytes: 0, freeBytes: 86e9 });
    await service().call("two");
    await page.goto(addressOf(service(), "/apps/one"));
    await card(page, "Replicas").getByText("evicted for app two").waitFor();
    // What was seen before this page was opened is there.
    await card(page, "GPUs").getByText("Its replicas have none now.").waitFor();
    await card(page, "GPUs").getByRole("slider", { name: "Memory in use" }).waitFor();
    expect(await seriousFaults(page, { isAgain: true })).toEqual([]);
    await page.goto(addressOf(service(), "/apps/two"));
    await card(page, "GPUs").getByText("Nothing is in use.").waitFor();
    await page.goto(addressOf(service(), "/apps/one"));
    await card(page, "Replicas").getByText("evicted for app two").waitFor();
    await page.goto(addressOf(service(), "/hardware"));
    const evictions = page.getByRole("list", { name: "Evictions" }).getByRole("listitem");
    await evictions.filter({ hasText: "one evicted for two" }).waitFor();
    expect(await seriousFaults(page, { isAgain: true })).toEqual([]);
    await page.goto(addressOf(service(), "/apps/one"));
    await page.setViewportSize({ width: 390, height: 844 });
    // The charts are drawn again for the new width.
    await page.waitForFunction(`${SIDEWAYS} <= 0`);
    expect(complaints).toEqual([]);
  },
);

verifies(
  "hardware.app",
  "the timeline of a run that a replica was started for has the time of its setup()",
  async () => {
    const { json } = await service().call("one");
    const { page, complaints } = await open(`/apps/one/runs/${json.run_id}`);
    const timeline = card(page, "Timeline").getByRole("list", { name: "The run" });
    await timeline.getByText("Cold start", { exact: true }).waitFor();
    await timeline.getByText("… setup()", { exact: true }).waitFor();
    expect(complaints).toEqual([]);
  },
);
