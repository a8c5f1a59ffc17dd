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

verifies(
  "guide.served",
  "the service shows its own documents, to whoever asks, under a strict policy",
  async () => {
    const moved = await fetch(address(), { redirect: "manual" });
    expect([moved.status, moved.headers.get("location")]).toEqual([308, "/guide/"]);
    for (const place of ["/", "/api.html"]) {
      const response = await fetch(address(place));
      expect([place, response.status]).toEqual([place, 200]);
      expect(Object.fromEntries(response.headers)).toMatchObject({
        "content-type": "text/html; charset=utf-8",
        "content-encoding": "gzip",
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "cache-control": "no-cache",
      });
      expect(response.headers.get("content-security-policy")).toMatch(
        /^default-src 'none'; script-src 'self';/,
      );
    }
    expect((await fetch(address("/images/overview.png"))).headers.get("content-encoding")).toBeNull();
    for (const place of ["/none.html", "/..%2fpackage.json", "/../package.json"]) {
      expect([place, (await fetch(address(place))).status]).toEqual([place, 404]);
    }
    expect((await fetch(address("/api.html"), { method: "POST" })).status).toBe(405);
  },
);

verifies("guide.search", "somebody finds a section by a word and goes there by keyboard", async () => {
  const { page, complaints } = await openPage(browser());
  await page.goto(address());
  await page.getByRole("heading", { level: 1, name: "Millrace" }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("last-event-id");
  await page.getByRole("option").first().waitFor();
  expect(await page.locator("#found mark").first().textContent()).toMatch(/last-event-id/i);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await page.waitForURL(/api\.html#/);
  await page.getByRole("combobox", { name: "Search the guide" }).fill("xyzzy plugh");
  await page.getByText("Nothing matches.").waitFor();
  expect(complaints).toEqual([]);
});

verifies("guide.copy", "a block of code is copied as it is", async () => {
  const { page, context, complaints } = await openPage(browser());
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.goto(address());
  const block = page.locator(".code").first();
  await block.hover();
  await block.getByRole("button", { name: "Copy" }).click();
  await block.getByRole("button", { name: "Copied" }).waitFor();
  expect(await page.evaluate("navigator.clipboard.readText()")).toBe(
    "git clone <this repository> millrace\ncd millrace\nnpm ci\nnpm start",
  );
  expect(complaints).toEqual([]);
});

verifies("dashboard.axe", "no serious accessibility fault, light on a desk and dark on a phone", async () => {
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
