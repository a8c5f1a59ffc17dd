import type { Page } from "playwright-core";
import { expect } from "vitest";
import { faultsOfState, seriousFaults } from "../../support/axe.ts";
import { OWNER, addressOf, sharedDashboard, thereAre } from "../../support/dashboard-site.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
def run(name="you"):
    return f"Hello, {name}"

def broken(text=""):
    raise ValueError(text)
`;
const HOSTILE = `<img src=x onerror="document.title='owned'">\u202E${"long".repeat(3_000)}`;

/** Its one replica stays, however long the test takes. */
const TOML = "[scaling]\nmax_replicas = 1\ncooldown = 3600\n";

const { service, open, openPath } = sharedDashboard({ hello: { main: MAIN, toml: TOML } });

/** A project of the owner's that has no apps. */
async function emptyProject(): Promise<string> {
  const { baseUrl } = service().service;
  const post = async (path: string, body: object, token = "") => {
    const response = await fetch(`${baseUrl}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) },
      body: JSON.stringify(body),
    });
    return (await response.json()) as { readonly accessToken: string; readonly id: string };
  };
  const { accessToken } = await post("/v2/session", OWNER);
  return (await post("/v2/projects", { name: "empty" }, accessToken)).id;
}

const figure = (page: Page, title: string) =>
  page
    .getByLabel("Figures", { exact: true })
    .locator("div")
    .filter({ has: page.getByText(title, { exact: true }) });

verifies(
  ["dashboard.overview", "dashboard.caller-errors", "dashboard.hostile", "dashboard.axe"],
  "the overview teaches at first, then shows runs, errors, latencies, replicas and failures as they come",
  async () => {
    const { page, complaints } = await openPath(`/projects/${await emptyProject()}`);
    await page.getByText("millrace init hi && millrace deploy hi").waitFor();
    await page.getByText("/hi/run").waitFor();
    expect(await faultsOfState(page)).toEqual([]);

    for (let i = 0; i < 3; i++) await service().call("hello");
    await service().service.settle();
    await page.goto(addressOf(service(), ""));
    await figure(page, "Runs").getByText("3", { exact: true }).waitFor();
    await figure(page, "Error rate").getByText("0%", { exact: true }).waitFor();
    await figure(page, "Replicas ready").getByText("1", { exact: true }).waitFor();
    await page.getByText("No run has failed in this time.").waitFor();

    // It comes by itself.
    await service().call("hello", { text: HOSTILE }, { functionName: "broken" });
    await figure(page, "Runs").getByText("4", { exact: true }).waitFor();
    await figure(page, "Error rate").getByText("25%", { exact: true }).waitFor();
    const failure = page.getByRole("link", { name: /ValueError: <img/ });
    await failure.waitFor();
    // What a caller did wrong is no failure of the app.
    expect((await service().call("hello", { nobody: 1 })).status).toBe(422);
    await figure(page, "Runs").getByText("5", { exact: true }).waitFor();
    await figure(page, "Error rate").getByText("20%", { exact: true }).waitFor();
    await figure(page, "Error rate").getByText("1 failure, 1 caller’s error", { exact: true }).waitFor();
    expect(
      await page
        .getByRole("row")
        .filter({ has: page.getByRole("link", { name: /argument/ }) })
        .count(),
    ).toBe(0);
    expect([await page.title(), await page.locator("img[src=x]").count()]).toEqual([
      "Overview · Millrace",
      0,
    ]);
    expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    expect(await seriousFaults(page)).toEqual([]);

    const chart = page.getByRole("slider", {
      name: /^Runs per minute: 5 in all, 1 failure, 1 caller’s error/,
    });
    await chart.focus();
    await page.keyboard.press("Home");
    expect(await chart.getAttribute("aria-valuetext")).toMatch(/: nothing$/);
    await page.keyboard.press("End");
    const steps = Number(await chart.getAttribute("max"));
    const texts: string[] = [];
    for (let step = 0; step <= steps; step++) {
      texts.push((await chart.getAttribute("aria-valuetext")) ?? "");
      await page.keyboard.press("ArrowLeft");
    }
    expect(texts.join(" ")).toMatch(/failure 1.*success|success.*failure 1/);

    const weekly = page.getByRole("heading", { name: "Runs per 3 hours", exact: true });
    await page.getByRole("link", { name: "7 days", exact: true }).click();
    await weekly.waitFor();
    await page.reload();
    await weekly.waitFor();
    expect(new URL(page.url()).search).toBe("?range=7d");

    await failure.click();
    await page.waitForURL(/\/apps\/hello\/runs\/[0-9a-f-]{36}$/);
    expect(complaints).toEqual([]);
  },
);

verifies(
  "dashboard.app-tabs",
  "an app's overview shows its version, hardware, figures and replicas",
  async () => {
    const { page, complaints } = await open("/apps/hello?range=15m");
    await service().call("hello");
    await page.getByText("CPU, 2 cores, 4 GB", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Version 1", exact: true }).waitFor();
    await page
      .getByRole("region", { name: "Replicas", exact: true })
      .getByText("ready", { exact: true })
      .waitFor();
    await page.getByRole("slider", { name: /^Runs per minute: [1-9]/ }).waitFor();
    const ranges = page.getByRole("navigation", { name: "Time range" });
    await ranges
      .locator("[aria-current]")
      .filter({ hasText: /^15 min$/ })
      .waitFor();
    await thereAre(1, ranges.locator("[aria-current]"));
    expect(await faultsOfState(page)).toEqual([]);
    expect(complaints).toEqual([]);
  },
);
