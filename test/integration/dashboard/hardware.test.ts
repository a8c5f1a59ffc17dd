import { expect } from "vitest";
import { seriousFaults } from "../../support/axe.ts";
import { addressOf, placeLink, sharedDashboard } from "../../support/dashboard-site.ts";
import { LOST, ToldGpus } from "../../support/sample-gpus.ts";
import { verifies } from "../../verifies.ts";

const told = new ToldGpus();
const TOML = "[scaling]\nmax_replicas = 1\ncooldown = 3600\n";
const { service, open } = sharedDashboard(
  { hello: { main: "def run():\n    return 1\n", toml: TOML } },
  {},
  told.options,
);

/** How far the page itself can be scrolled sideways. */
const SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
const DARK = `document.documentElement.classList.add("dark")`;

verifies(
  ["hardware.dashboard", "hardware.replicas", "dashboard.axe"],
  "the operator sees GPUs, their memory and who has them; an app's page has its replicas' GPUs",
  async () => {
    await service().call("hello");
    const live = service().apps.get("hello");
    const [replica] = live?.pool.replicas ?? [];
    const { projectId } = service().service.owner;
    told.grantFirst(projectId, "hello", replica?.id ?? "");
    const { page, complaints } = await open("/runs");
    await placeLink(page, "Hardware").click();
    const first = page.getByRole("listitem").filter({ has: page.getByRole("heading", { name: "GPU 0" }) });
    await first.getByText("works", { exact: true }).waitFor();
    for (const text of [
      "52 GB",
      "36 GB",
      "28 GB",
      "of 85.5 GB",
      "87 %",
      "64 °C",
      "1 replica, 1 starting, 36 GB",
    ])
      await first.getByText(text, { exact: true }).waitFor();
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
    await row.getByText("H100 (20 GB)").waitFor();
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
