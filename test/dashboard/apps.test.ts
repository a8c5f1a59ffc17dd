import { writeFile } from "node:fs/promises";
import path from "node:path";
import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";
import { faultsOfState } from "../support/axe.ts";
import { addressOf, dialogField, inDialog, says, sharedDashboard } from "../support/dashboard-site.ts";
import { DeployClient } from "../support/deploy-client.ts";
import { zipOf } from "../support/zip.ts";
import { verifies } from "../verifies.ts";

const main = (text: string) => ({ main: `def run():\n    return ${JSON.stringify(text)}\n` });
/** Its replica stays, however long the test takes. */
const STAYING = { ...main("hello"), toml: "[scaling]\ncooldown = 3600\n" };
/** Its build says where it is, and waits there for a file. */
const HELD = "pwd; echo '<b>held</b>'; while [ ! -e go ]; do sleep 0.02; done; echo let go >&2";

const { service, open } = sharedDashboard({ hello: STAYING, shop: main("first") });

/** What the management API answers about an app. */
async function askAbout(place: string): Promise<{ status: number; json: Record<string, unknown> }> {
  const { baseUrl, owner } = service().service;
  const url = `${baseUrl}/v2/projects/${owner.projectId}/apps/${owner.projectId}-${place}`;
  const response = await fetch(url, { headers: { authorization: `Bearer ${owner.token}` } });
  return { status: response.status, json: (await response.json()) as Record<string, unknown> };
}

const tab = (page: Page, name: string): Locator =>
  page.getByRole("navigation", { name: "App", exact: true }).getByRole("link", { name, exact: true });
const button = (page: Page, name: string): Locator => page.getByRole("button", { name, exact: true });
const link = (page: Page, name: string): Locator => page.getByRole("link", { name, exact: true });

verifies(
  "dashboard.apps",
  "the list shows each app's state, version, replicas and runs, and is searched by an address",
  async () => {
    await service().call("hello");
    await service().service.settle();
    const { page, complaints } = await open("/apps");
    const row = (name: string) => page.getByRole("row").filter({ has: link(page, name) });
    await row("hello").getByText("ready", { exact: true }).waitFor();
    await row("hello").getByRole("img", { name: "1 run in the last 24 hours, 0 failed" }).waitFor();
    const cells = await row("hello").getByRole("cell").allInnerTexts();
    expect(cells.slice(0, 5)).toEqual(["hello", "ready", "1", "1", "1"]);
    await row("shop").getByText("cold", { exact: true }).waitFor();
    expect(await faultsOfState(page)).toEqual([]);

    await page.getByLabel("Search apps").fill("sho");
    await row("hello").waitFor({ state: "detached" });
    expect(new URL(page.url()).search).toBe("?search=sho");
    await page.reload();
    await row("shop").waitFor();
    expect([await row("hello").count(), await page.getByLabel("Search apps").inputValue()]).toEqual([
      0,
      "sho",
    ]);
    await page.getByLabel("Search apps").fill("nothing like it");
    await button(page, "Show all 2").click();
    await row("hello").getByRole("link").click();
    await page.getByRole("heading", { name: "hello", level: 1 }).waitFor();
    expect(complaints).toEqual([]);
  },
);

verifies(
  "dashboard.app-tabs",
  "scaling is changed at once and taken back, what does not fit is said at its field, an app is deleted by its name",
  async () => {
    await service().deploy("doomed", main("doomed"));
    const { page, complaints } = await open("/apps/doomed/settings");
    const least = page.getByLabel("Replicas, at least", { exact: true });
    await page.getByText("deployment.python_version", { exact: true }).waitFor();
    expect(await least.inputValue()).toBe("0");
    await least.fill("9999");
    await page.getByLabel("Cooldown, seconds", { exact: true }).fill("7");
    await button(page, "Save").click();
    await page.getByText("must be a whole number from 0 to 2000").waitFor();
    await least.fill("1");
    await button(page, "Save").click();
    await page.getByText("changed since the deploy", { exact: true }).waitFor();
    expect((await askAbout("doomed")).json).toMatchObject({
      minReplicaCount: "1",
      cooldownPeriodSeconds: "7",
    });
    expect(await faultsOfState(page)).toEqual([]);
    await button(page, "As configured").click();
    await page.getByText("changed since the deploy", { exact: true }).waitFor({ state: "detached" });
    expect((await askAbout("doomed")).json).toMatchObject({
      minReplicaCount: "0",
      cooldownPeriodSeconds: "30",
    });

    await tab(page, "Danger").click();
    await page.waitForURL(addressOf(service(), "/apps/doomed/danger"));
    const remove = button(page, "Delete doomed");
    const typed = page.getByLabel("Type doomed to delete it", { exact: true });
    await typed.fill("doome");
    expect(await remove.isDisabled()).toBe(true);
    expect(await faultsOfState(page)).toEqual([]);
    await typed.fill("doomed");
    await says(page, "doomed is deleted.", () => remove.click());
    await link(page, "hello").waitFor();
    await link(page, "doomed").waitFor({ state: "detached" });
    expect((await askAbout("doomed")).status).toBe(404);
    const others = complaints.filter((text) => !/404 \(Not Found\).*-doomed\b/.test(text));
    // The one that did not fit; the page may have asked for the app once more in the moment of its end.
    expect(others).toEqual([expect.stringContaining("400 (Bad Request)")]);
  },
);

verifies(
  "dashboard.builds",
  "a build is followed while it runs, another one cancelled, and the version before put back",
  async () => {
    const { baseUrl, owner } = service().service;
    const client = new DeployClient({ ...owner, baseUrl }, "shop");
    const begun = await client.begin({ shellCommands: [HELD] });
    const { page, complaints } = await open("/apps/shop/builds");
    await client.put(begun, await zipOf({ "main.py": main("second").main }));
    await link(page, begun.buildId.slice(-8)).click();
    const log = page.getByRole("log", { name: "Build log" });
    await log.getByText("<b>held</b>", { exact: true }).waitFor();
    await page.getByText("following", { exact: true }).waitFor();
    expect(await faultsOfState(page)).toEqual([]);
    const folder = (await log.getByText(/^\//).first().innerText()).trim();
    await writeFile(path.join(folder, "go"), "");
    await log.getByText("let go", { exact: true }).waitFor();
    await log.getByText("version 2 is live").waitFor();
    await page.getByText("following", { exact: true }).waitFor({ state: "detached" });
    await page.getByText("live", { exact: true }).waitFor();
    expect((await service().call("shop")).json.result).toBe("second");

    const waiting = await client.begin();
    await tab(page, "Builds").click();
    await link(page, waiting.buildId.slice(-8)).click();
    await button(page, "Cancel build").click();
    await says(page, "The build is cancelled.", () => inDialog(page, "Cancel build").click());
    await page.getByText("cancelled", { exact: true }).waitFor();
    expect(await client.status(waiting.buildId)).toBe("cancelled");

    await tab(page, "Builds").click();
    await button(page, "Roll back to version 1").click();
    await says(page, "Version 1 is live.", () => inDialog(page, "Roll back to 1").click());
    await button(page, "Roll back to version 2").waitFor();
    expect((await service().call("shop")).json.result).toBe("first");
    expect(await faultsOfState(page)).toEqual([]);
    expect(complaints).toEqual([]);
  },
);

verifies(
  "dashboard.secrets",
  "secrets are added, shown on demand, changed and removed, and one that overrides the project's says so",
  async () => {
    const { baseUrl, owner } = service().service;
    const bearer = { authorization: `Bearer ${owner.token}` };
    await fetch(`${baseUrl}/v2/projects/${owner.projectId}/secrets`, {
      method: "PATCH",
      headers: { ...bearer, "content-type": "application/json" },
      body: JSON.stringify({ SHARED: "of all", REGION: "here" }),
    });
    const { page, complaints } = await open("/apps/hello/secrets");
    const secrets = async () => (await askAbout("hello/secrets")).json;
    const none = page.getByText("No secrets yet", { exact: true });
    await none.waitFor();
    await page.getByText("REGION", { exact: true }).waitFor();
    await button(page, "Add secret").click();
    await dialogField(page, "Name").fill("not a name");
    await page.getByText("A name can contain only letters").waitFor();
    await dialogField(page, "Name").fill("SHARED");
    await page.getByText("The project also has a secret with this name").waitFor();
    await dialogField(page, "Value").fill("<script>alert(1)</script>");
    expect(await faultsOfState(page)).toEqual([]);
    await says(page, "SHARED is added.", () => inDialog(page, "Add secret").click());
    await page.getByText("overrides the project’s", { exact: true }).waitFor();
    expect(await page.getByText("<script>").count()).toBe(0);
    await button(page, "Show SHARED").click();
    await page.getByText("<script>alert(1)</script>", { exact: true }).waitFor();
    expect(await secrets()).toEqual({ SHARED: "<script>alert(1)</script>" });

    await button(page, "Change SHARED").click();
    await dialogField(page, "Value").fill("two\nlines");
    await says(page, "SHARED is changed.", () => inDialog(page, "Change secret").click());
    expect(await secrets()).toEqual({ SHARED: "two\nlines" });
    expect(await faultsOfState(page)).toEqual([]);
    await button(page, "Remove SHARED").click();
    await inDialog(page, "Remove secret").click();
    await none.waitFor();
    expect(await secrets()).toEqual({});

    await link(page, "project’s settings").click();
    // Until it is there the app's own button of that name is.
    await page.getByRole("heading", { level: 1, name: "Settings", exact: true }).waitFor();
    await button(page, "Add secret").click();
    await dialogField(page, "Name").fill("REGION");
    await page.getByText("A secret with this name exists").waitFor();
    await dialogField(page, "Name").fill("EVERYWHERE");
    await dialogField(page, "Value").fill("in each app");
    await says(page, "EVERYWHERE is added.", () => inDialog(page, "Add secret").click());
    await button(page, "Remove SHARED").click();
    await inDialog(page, "Remove secret").click();
    await button(page, "Remove SHARED").waitFor({ state: "detached" });
    const ofAll = await fetch(`${baseUrl}/v2/projects/${owner.projectId}/secrets`, { headers: bearer });
    expect(await ofAll.json()).toEqual({ REGION: "here", EVERYWHERE: "in each app" });
    expect(await faultsOfState(page)).toEqual([]);
    expect(complaints).toEqual([]);
  },
);
