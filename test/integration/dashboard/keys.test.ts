import { beforeAll, expect } from "vitest";
import { sharedBrowser } from "../../support/browser.ts";
import { builtDashboard, makeOwner, openPage, signIn } from "../../support/dashboard-site.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const HELLO = { main: "def run(name='x'):\n    return f'Hello, {name}'\n" };
const webDir = await builtDashboard();
const service = sharedService({ hello: HELLO }, {}, { webDir });
const browser = sharedBrowser();

beforeAll(async () => {
  await makeOwner(service());
});

verifies(
  ["dashboard.api-keys.create", "dashboard.api-keys.copy"],
  "a key is created with a name and an expiry date, its token shown once, works, is rotated and deleted",
  async () => {
    const { baseUrl, owner } = service().service;
    const { page, context, complaints } = await openPage(browser(), {
      permissions: ["clipboard-read", "clipboard-write"],
    });
    await signIn(page, baseUrl, `/projects/${owner.projectId}/keys`);
    const status = async (token: string): Promise<number> =>
      (await service().call("hello", {}, { token })).status;
    const copied = async (): Promise<string> => {
      await page.getByRole("dialog").getByRole("button", { name: "Copy", exact: true }).click();
      await page.getByRole("dialog").getByText("Copied", { exact: true }).waitFor();
      return await page.evaluate<string>("navigator.clipboard.readText()");
    };

    await page.getByRole("button", { name: "Create key" }).first().click();
    await page.getByLabel("Name").fill("checkout <b>production</b>");
    await page.getByLabel("Expiry date").fill("2027-01-31");
    await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
    await page.getByText("It is shown this once").waitFor();
    const first = await copied();
    expect(await status(first)).toBe(200);
    await page.getByRole("button", { name: "I have copied it" }).click();
    await page.getByRole("cell", { name: "checkout <b>production</b>", exact: true }).waitFor();
    expect(await page.content()).not.toContain(first);

    await page.getByRole("button", { name: "Rotate checkout" }).click();
    await page.getByLabel("The old token").selectOption("0");
    await page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click();
    await page.getByText("It is shown this once").waitFor();
    const second = await copied();
    expect([second === first, await status(second)]).toEqual([false, 200]);
    await page.getByRole("button", { name: "I have copied it" }).click();

    await page.getByRole("button", { name: "Delete checkout" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete key" }).click();
    await page.getByText("is deleted").waitFor();
    expect(await page.getByRole("cell", { name: "checkout" }).count()).toBe(0);
    expect([await status(first), await status(second)]).toEqual([401, 401]);
    expect(complaints).toEqual([]);
    await context.close();
  },
);
