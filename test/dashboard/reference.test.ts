import { expect } from "vitest";
import type { Page } from "playwright-core";
import { faultsOfState, seriousFaults } from "../support/axe.ts";
import { openPage, sharedDashboard } from "../support/dashboard-site.ts";
import { verifies } from "../verifies.ts";

const { service, browser, openPath } = sharedDashboard();

type Described = { readonly summary: string; readonly operationId: string };

const answer = (page: Page) => page.getByRole("region", { name: "Answer", exact: true });

verifies(
  "reference.complete",
  "every operation is shown and found, with its schemas and examples",
  async () => {
    const { page, complaints } = await openPath("/docs#createServiceAccount");
    const response = await fetch(`${service().service.baseUrl}/openapi.json`);
    const { paths } = (await response.json()) as { paths: Record<string, Record<string, Described>> };
    const create = page.locator("#createServiceAccount");
    await create.getByRole("heading", { name: "Answer 200" }).waitFor();
    const shown = await page.getByRole("main").innerText();
    for (const [path, methods] of Object.entries(paths)) {
      for (const { summary } of Object.values(methods)) {
        expect(shown).toContain(path);
        expect(shown).toContain(summary);
      }
    }
    // What a link names is open, all others are a line each.
    expect(await page.locator("main details[open]").count()).toBe(1);
    const body = create.getByRole("region", { name: "Body of createServiceAccount" });
    expect(await body.innerText()).toMatch(/name\s*required\s*string\s*1 to 100 characters/);
    const example = await create.getByRole("region", { name: "Example answer" }).innerText();
    expect(JSON.parse(example)).toMatchObject({ name: "name", role: "call", token: "token" });
    expect(await create.getByRole("region", { name: "Command" }).innerText()).toContain("/service-accounts'");

    await page.getByLabel("Find an operation").fill("webhook secret");
    await page
      .getByRole("heading", { level: 2, name: "Apps", exact: true })
      .first()
      .waitFor({ state: "detached" });
    expect(await page.locator("main details").count()).toBeGreaterThan(1);
    await page.getByLabel("Find an operation").fill("xyzzy");
    await page.getByText("No operation matches.").waitFor();
    expect(complaints).toEqual([]);
  },
);

verifies("reference.try", "whoever is signed in tries an operation as themselves", async () => {
  const { owner } = service().service;
  const { page, complaints } = await openPath("/docs#createServiceAccount");
  const create = page.locator("#createServiceAccount");
  await create.getByLabel("project_id").fill(owner.projectId);
  await create.getByLabel("Body", { exact: true }).fill('{ "name": "from the reference" }');
  await create.getByRole("button", { name: "Send POST" }).click();
  await answer(page).waitFor();
  expect(await answer(page).innerText()).toContain('"name": "from the reference"');
  // A value that one operation was given, the next one begins with.
  await page
    .getByRole("navigation", { name: "Operations" })
    .getByText("List a project's service accounts")
    .click();
  const list = page.locator("#listServiceAccounts");
  await list.getByRole("button", { name: "Send GET" }).click();
  await list.getByRole("region", { name: "Answer", exact: true }).waitFor();
  expect(await list.getByRole("region", { name: "Answer", exact: true }).innerText()).toContain(
    '"name": "from the reference"',
  );
  expect(complaints).toEqual([]);
});

verifies("reference.try", "a project that becomes known late is not put beside what is typed", async () => {
  const { owner } = service().service;
  const { page, context } = await openPath("/docs#listServiceAccounts");
  const isKnown = Promise.withResolvers<void>();
  await context.route("**/v2/me", async (route) => {
    await isKnown.promise;
    await route.continue();
  });
  await page.reload();
  const project = page.locator("#listServiceAccounts").getByLabel("project_id");
  await project.focus();
  isKnown.resolve();
  await page.getByText("Requests are sent as owner@example.test").waitFor();
  await page.keyboard.insertText(owner.projectId);
  expect(await project.inputValue()).toBe(owner.projectId);
});

verifies("reference.try", "whoever has a token pastes it, and it stays in the page's memory", async () => {
  const { owner, baseUrl } = service().service;
  const { page, complaints } = await openPage(browser());
  await page.goto(`${baseUrl}/docs#listServiceAccounts`);
  const list = page.locator("#listServiceAccounts");
  await list.getByLabel("project_id").fill(owner.projectId);
  const send = list.getByRole("button", { name: "Send GET" });
  expect(await send.isDisabled()).toBe(true);
  await page.getByLabel("Token").fill(` ${owner.token} `);
  await send.click();
  await answer(page).waitFor();
  expect(await answer(page).innerText()).toContain(`"projectId": "${owner.projectId}"`);
  await page.getByLabel("Token").fill("none");
  await send.click();
  await list.getByText("401", { exact: true }).first().waitFor();
  const reach = "JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])";
  expect(await page.evaluate(reach)).not.toContain(owner.token);
  // Nobody is signed in, which the page asks first.
  expect(complaints.filter((text) => !text.includes("status of 401"))).toEqual([]);
});

verifies("dashboard.axe", "no serious accessibility fault, light on a desk and dark on a phone", async () => {
  const { page } = await openPath("/docs#createServiceAccount");
  await page.getByRole("heading", { name: "Answer 200" }).waitFor();
  // One is enough: they are alike, and each takes its time to be judged.
  await page.getByLabel("Find an operation").fill("createServiceAccount");
  expect(await seriousFaults(page)).toEqual([]);
  await page.setViewportSize({ width: 390, height: 844 });
  await page.getByRole("button", { name: "Use dark colours" }).click();
  expect(await faultsOfState(page)).toEqual([]);
  const sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
  expect(await page.evaluate<number>(sideways)).toBeLessThanOrEqual(0);
});
