import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { buildGuide } from "../../../scripts/guide/build.ts";
import { drawn, seriousFaults } from "../../support/axe.ts";
import { sharedBrowser } from "../../support/browser.ts";
import { openPage } from "../../support/dashboard-site.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const options = { guideDir: "" };
let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "millrace-guide-"));
  options.guideDir = path.join(folder, "guide");
  await buildGuide(options.guideDir);
});
afterAll(async () => await rm(folder, { recursive: true, force: true }));

const service = sharedService({}, {}, options);
const browser = sharedBrowser();
const address = (place = ""): string => `${service().service.baseUrl}/guide${place}`;

verifies("guide.axe", "no serious accessibility fault, light on a desk and dark on a phone", async () => {
  const { page, complaints } = await openPage(browser());
  await page.goto(address("/"));
  expect(await seriousFaults(page)).toEqual([]);
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(address("/errors.html"));
  await page.getByRole("button", { name: "Change colours" }).click();
  await page.getByRole("button", { name: "Menu" }).click();
  await page.getByRole("combobox", { name: "Search the guide" }).fill("run");
  await page.getByRole("option").first().waitFor();
  await drawn(page);
  expect(await seriousFaults(page)).toEqual([]);
  const sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
  expect(await page.evaluate(sideways)).toBe(0);
  expect(complaints).toEqual([]);
});
