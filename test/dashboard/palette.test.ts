import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { OWNER, openPage, placeLink, sharedDashboard } from "../support/dashboard-site.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const HELLO = { main: "def run(name: str = 'x'):\n    return f'Hello, {name}'\n" };

const { service, browser, open } = sharedDashboard({ hello: HELLO });

const field = (page: Page) => page.getByRole("combobox", { name: "Page, app or run id", exact: true });

/** Opens the palette, by keys. */
async function openPalette(page: Page): Promise<void> {
  await page.keyboard.press("Control+k");
  await field(page).waitFor();
}

/** Waits until all of the page of API keys is there: projects and keys come by answers of their own. */
async function isWhole(page: Page): Promise<void> {
  await page.getByRole("combobox", { name: "Project", exact: true }).waitFor();
  await page.getByRole("cell", { name: "owner", exact: true }).waitFor();
}

/** Goes where the palette leads for a text, with nothing but keys. */
async function goTo(page: Page, text: string): Promise<void> {
  await openPalette(page);
  await page.keyboard.type(text);
  await page.getByRole("listbox").getByRole("option", { name: text }).first().waitFor();
  await page.keyboard.press("Enter");
}

/** The name of what has the focus, as it is read out. */
async function focused(page: Page): Promise<string> {
  return await page.evaluate<string>(`(() => {
    const { activeElement: element } = document;
    const label = element.labels?.[0]?.textContent;
    return element.ariaLabel ?? label ?? element.textContent;
  })()`);
}

verifies("dashboard.palette", "somebody with a keyboard alone signs in and reaches every page", async () => {
  const { baseUrl, owner } = service().service;
  const { page, complaints } = await openPage(browser());
  await page.goto(`${baseUrl}/sign-in`);
  // The first field has the focus already.
  await page.getByLabel("E-mail").waitFor();
  await page.keyboard.type(OWNER.email);
  await page.keyboard.press("Tab");
  await page.keyboard.type(OWNER.password);
  await page.keyboard.press("Enter");
  await page.getByRole("navigation", { name: "Project" }).waitFor();

  for (const name of [
    "Apps",
    "Runs",
    "Usage",
    "API keys",
    "Webhooks",
    "Files",
    "Audit",
    "Nodes",
    "Hardware",
    "Settings",
    "Overview",
  ]) {
    await goTo(page, name);
    await page.getByRole("heading", { level: 1, name, exact: true }).waitFor();
    await placeLink(page, name).and(page.locator("[aria-current=page]")).waitFor();
  }
  for (const tab of ["runs", "logs", "builds", "playground", "settings", "secrets"]) {
    await goTo(page, `hello ${tab}`);
    await page.waitForURL(`**/projects/${owner.projectId}/apps/hello/${tab}`);
    const tabs = page.getByRole("navigation", { name: "App", exact: true });
    await tabs
      .locator("[aria-current=page]")
      .filter({ hasText: new RegExp(`^${tab}$`, "i") })
      .waitFor();
  }
  const answer = await service().call("hello", {});
  await service().service.settle();
  const runId = answer.headers.get("x-request-id") ?? "";
  await openPalette(page);
  await page.keyboard.insertText(runId);
  await page.getByRole("option", { name: `${runId} run of hello`, exact: true }).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "hello · run", exact: true }).waitFor();

  // Chosen by the arrows, also the one above the first, which is the last; what is chosen is in sight.
  await openPalette(page);
  await page.getByRole("option", { name: "hello app", exact: true }).waitFor();
  await page.keyboard.press("ArrowUp");
  const last = page.getByRole("listbox").getByRole("option", { name: "Sign out deed", selected: true });
  await until("the last one is in sight", async () => {
    const [list, option] = [await page.getByRole("listbox").boundingBox(), await last.boundingBox()];
    return option!.y + option!.height <= list!.y + list!.height;
  });
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Use light colours", exact: true }).waitFor();
  await openPalette(page);
  await page.keyboard.type("no such thing");
  await page.getByText("Nothing matches.", { exact: true }).waitFor();
  await page.keyboard.press("Enter");
  await field(page).waitFor({ state: "detached" });
  // Before: what the page asks for while its session ends is refused, and the browser says so.
  expect(complaints).toEqual([]);
  await goTo(page, "Sign out");
  await page.getByLabel("Password").waitFor();
});

test("Tab goes through a page in the order in which it is read, and past the navigation if one likes", async () => {
  const { page } = await open("/keys");
  await isWhole(page);
  const order: string[] = [];
  for (let i = 0; i < 21; i++) {
    await page.keyboard.press("Tab");
    order.push((await focused(page)).replace(/Ctrl K$/, ""));
  }
  const navigation = [
    "Overview",
    "Apps",
    "Runs",
    "Usage",
    "API keys",
    "Webhooks",
    "Files",
    "Audit",
    "Nodes",
    "Hardware",
    "Settings",
  ];
  const beginning = ["Skip to the content", "Project", "Go to…"];
  const person = ["Use dark colours", "Sign out", "Guide", expect.stringContaining("API ")];
  const content = ["Create key", "API keys", "Rotate owner"];
  expect(order).toEqual([...beginning, ...navigation, ...person, ...content]);
  await page.reload();
  await isWhole(page);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  expect(await focused(page)).toBe("Create key");
});

test("a dialog keeps the focus while it is open and gives it back", async () => {
  const { page } = await open("/keys");
  const button = page.getByRole("button", { name: "Create key", exact: true });
  await isWhole(page);
  for (const leave of ["Escape", "Cancel"]) {
    await button.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    expect(await focused(page)).toBe("Name");
    for (let i = 0; i < 24; i++) {
      await page.keyboard.press("Tab");
      // The browser's own bar is a stop on the way round; nothing of the page beneath is.
      expect(
        await page.evaluate(
          "document.activeElement.closest('dialog') !== null || document.activeElement === document.body",
        ),
      ).toBe(true);
    }
    if (leave === "Cancel") await page.getByRole("button", { name: "Cancel", exact: true }).focus();
    await page.keyboard.press(leave === "Cancel" ? "Enter" : "Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    expect(await focused(page)).toBe("Create key");
  }
  await openPalette(page);
  await page.keyboard.press("Escape");
  await field(page).waitFor({ state: "hidden" });
  expect(await focused(page)).toBe("Create key");
});
