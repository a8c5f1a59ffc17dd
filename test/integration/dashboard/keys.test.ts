import { expect } from "vitest";
import { dialogField, inDialog, says, sharedDashboard } from "../../support/dashboard-site.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const HELLO = { main: "def run(name='x'):\n    return f'Hello, {name}'\n" };
const DAY_MS = 86_400_000;

const { service, open } = sharedDashboard({ hello: HELLO });

verifies(
  ["dashboard.api-keys.create", "dashboard.api-keys.copy"],
  "a key is created with a name and an expiry date, its token shown once, works, is rotated and deleted",
  async () => {
    const name = "checkout <b>production</b>";
    const { page, complaints } = await open("/keys", { permissions: ["clipboard-read", "clipboard-write"] });
    const button = (title: string) => page.getByRole("button", { name: title, exact: true });
    const status = async (token: string): Promise<number> =>
      (await service().call("hello", {}, { token })).status;
    /** What the dialog's button puts on the clipboard. */
    const copied = async (): Promise<string> => {
      await page.evaluate("navigator.clipboard.writeText('')");
      await inDialog(page, "Copy").click();
      let text = "";
      const read = async (): Promise<boolean> =>
        (text = await page.evaluate<string>("navigator.clipboard.readText()")) !== "";
      await until("the token is on the clipboard", read);
      return text;
    };
    const shownOnce = page.getByText("It is shown only once");

    await button("Create key").click();
    await dialogField(page, "Name").fill(name);
    const expiry = new Date(Date.now() + 75 * DAY_MS).toISOString().slice(0, 10);
    await dialogField(page, "Expiry date").fill(expiry);
    await inDialog(page, "Create key").click();
    await shownOnce.waitFor();
    const first = await copied();
    expect(await status(first)).toBe(200);
    await inDialog(page, "I have copied it").click();
    await shownOnce.waitFor({ state: "detached" });
    await page.getByRole("cell", { name, exact: true }).waitFor();
    expect(await page.content()).not.toContain(first);
    const { baseUrl, owner } = service().service;
    const listed = await fetch(`${baseUrl}/v2/projects/${owner.projectId}/service-accounts`, {
      headers: { authorization: `Bearer ${owner.token}` },
    });
    expect(await listed.json()).toContainEqual(
      expect.objectContaining({ name, expiresAt: expect.stringContaining(expiry) }),
    );

    await button(`Change the weight of ${name}`).click();
    await dialogField(page, "Weight").fill("5");
    await inDialog(page, "Change weight").click();
    await page
      .getByRole("cell", { name: `Change the weight of ${name}` })
      .getByText("5")
      .waitFor();

    await button(`Rotate ${name}`).click();
    await dialogField(page, "The old token").selectOption("0");
    await inDialog(page, "Rotate").click();
    await shownOnce.waitFor();
    const second = await copied();
    expect([second === first, await status(second)]).toEqual([false, 200]);
    await inDialog(page, "I have copied it").click();
    await shownOnce.waitFor({ state: "detached" });

    await button(`Delete ${name}`).click();
    await says(page, `Deleted ${name}.`, () => inDialog(page, "Delete key").click());
    await page.getByRole("cell", { name, exact: true }).waitFor({ state: "detached" });
    expect([await status(first), await status(second)]).toEqual([401, 401]);
    expect(complaints).toEqual([]);
  },
);

verifies(
  "call.dashboard",
  "a key for a web page is created with its apps, functions, origins and pace, and the list shows them",
  async () => {
    const { page, complaints } = await open("/keys");
    await page.getByRole("button", { name: "Create key", exact: true }).click();
    await dialogField(page, "Name").fill("shop");
    expect(await page.getByRole("checkbox", { name: "hello" }).count()).toBe(0);
    await dialogField(page, "Role").selectOption("call");
    await page.getByRole("checkbox", { name: "hello", exact: true }).check();
    await dialogField(page, "Functions").fill("run, other");
    await dialogField(page, "Origins").fill("https://shop.example.com");
    await dialogField(page, "Calls per minute").fill("30");
    await inDialog(page, "Create key").click();
    await page.getByText("It is shown only once").waitFor();
    await inDialog(page, "I have copied it").click();
    await page.getByRole("cell", { name: "call hello" }).waitFor();
    const { baseUrl, owner } = service().service;
    const listed = await fetch(`${baseUrl}/v2/projects/${owner.projectId}/service-accounts`, {
      headers: { authorization: `Bearer ${owner.token}` },
    });
    expect(await listed.json()).toContainEqual(
      expect.objectContaining({
        name: "shop",
        role: "call",
        apps: ["hello"],
        functions: ["run", "other"],
        origins: ["https://shop.example.com"],
        callsPerMinute: 30,
      }),
    );
    // What is left out of the form is said by the service.
    await page.getByRole("button", { name: "Create key", exact: true }).click();
    await dialogField(page, "Name").fill("bare");
    await dialogField(page, "Role").selectOption("call");
    await inDialog(page, "Create key").click();
    await page.getByText("apps:").first().waitFor();
    expect(complaints.filter((text) => !text.includes("400"))).toEqual([]);
  },
);
