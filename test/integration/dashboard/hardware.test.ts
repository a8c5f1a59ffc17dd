import { expect } from "vitest";
import { seriousFaults } from "../../support/axe.ts";
import { addressOf, placeLink, sharedDashboard } from "../../support/dashboard-site.ts";
import { holders } from "../../support/gpus/holders.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { LOST, ToldGpus } from "../../support/gpus/sample-gpus.ts";
import { verifies } from "../../verifies.ts";

const told = new ToldGpus();
const TOML = '[hardware]\ncompute = "H100"\ngpu_memory = 10\n[scaling]\nmin_replicas = 2\nmax_replicas = 2\n';
const { service, open } = sharedDashboard(
  { hello: { main: "def run():\n    return 1\n", toml: TOML } },
  WITHOUT_WALLS,
  told.options,
);

/** How far the page itself can be scrolled sideways. */
const SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
const DARK = `document.documentElement.classList.add("dark")`;

verifies(
  ["hardware.dashboard", "hardware.replicas", "dashboard.axe"],
  "the operator sees GPUs, their memory and who has them; an app's page has its replicas' GPUs",
  async () => {
    await until("both replicas have their GPU", async () => (await holders(service())).length === 2);
    const live = service().apps.get("hello");
    const [replica] = live?.pool.replicas ?? [];
    const { page, complaints } = await open("/runs");
    await placeLink(page, "Hardware").click();
    const first = page.getByRole("listitem").filter({ has: page.getByRole("heading", { name: "GPU 0" }) });
    await first.getByText("works", { exact: true }).waitFor();
    for (const text of ["52 GB", "20 GB", "28 GB", "of 85.5 GB", "87 %", "64 °C", "2 replicas, 20 GB"])
      await first.getByText(text, { exact: true }).waitFor();
    const hour = first.getByRole("slider", { name: "Memory in use of GPU 0 in the last hour" });
    expect(await hour.getAttribute("aria-valuetext")).toContain("52 GB");
    await first.getByRole("slider", { name: "Utilization of GPU 0" }).waitFor();
    const lost = page.getByRole("listitem").filter({ has: page.getByRole("heading", { name: "GPU 2" }) });
    await lost.getByText("out of service", { exact: true }).waitFor();
    await lost.getByText(LOST, { exact: true }).waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await page.setViewportSize({ width: 390, height: 844 });
    await page.evaluate(DARK);
    expect(await seriousFaults(page, { isAgain: true })).toEqual([]);
    expect(await page.evaluate<number>(SIDEWAYS)).toBeLessThanOrEqual(0);

    await first.getByRole("link", { name: "hello" }).click();
    const row = page.getByRole("row", { name: replica?.id ?? "" });
    await row.getByText("H100 (10 GB)").waitFor();
    expect(await page.evaluate<number>(SIDEWAYS)).toBeLessThanOrEqual(0);
    expect(complaints).toEqual([]);
  },
);

verifies(
  ["hardware.dashboard", "dashboard.axe"],
  "where there is no GPU the page says what to do, and where the driver does not work why",
  async () => {
    const before = told.machine;
    told.machine = { driver: null, gpus: [], trouble: null };
    const { page, complaints } = await open("/hardware");
    await page.getByText("No GPUs", { exact: true }).waitFor();
    await page.getByText("millrace doctor", { exact: true }).waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await page.evaluate<number>(SIDEWAYS)).toBeLessThanOrEqual(0);

    told.machine = { driver: null, gpus: [], trouble: "libnvidia-ml.so.1 was not found" };
    await page.goto(addressOf(service(), "/hardware"));
    await page.getByRole("alert").getByText("libnvidia-ml.so.1 was not found").waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    told.machine = before;
    expect(complaints).toEqual([]);
  },
);
