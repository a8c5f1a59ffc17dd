import { writeFile } from "node:fs/promises";
import path from "node:path";
import axe from "axe-core";
import type { Page } from "playwright-core";
import { beforeAll, expect } from "vitest";
import { sharedBrowser } from "../../support/browser.ts";
import { builtDashboard, makeOwner, openPage, signIn } from "../../support/dashboard-site.ts";
import { DeployClient } from "../../support/deploy-client.ts";
import { sharedService } from "../../support/shared-service.ts";
import { zipOf } from "../../support/zip.ts";
import { verifies } from "../../verifies.ts";

const main = (text: string) => ({ main: `def run():\n    return ${JSON.stringify(text)}\n` });
/** Its build says where it is, and waits there for a file. */
const HELD = "pwd; echo '<b>held</b>'; while [ ! -e go ]; do sleep 0.02; done; echo let go >&2";

const webDir = await builtDashboard();
const service = sharedService({ hello: main("hello"), shop: main("first") }, {}, { webDir });
const browser = sharedBrowser();

beforeAll(async () => {
  await makeOwner(service());
});

/** Opens one of an app's pages, or the list of apps. */
async function open(place: string): Promise<{ page: Page; complaints: string[] }> {
  const { baseUrl, owner } = service().service;
  const { page, complaints } = await openPage(browser());
  await signIn(page, baseUrl, `/projects/${owner.projectId}/apps${place}`);
  return { page, complaints };
}

/** What the management API answers about an app. */
async function askAbout(place: string): Promise<{ status: number; json: Record<string, unknown> }> {
  const { baseUrl, owner } = service().service;
  const url = `${baseUrl}/v2/projects/${owner.projectId}/apps/${owner.projectId}-${place}`;
  const response = await fetch(url, { headers: { authorization: `Bearer ${owner.token}` } });
  return { status: response.status, json: (await response.json()) as Record<string, unknown> };
}

async function seriousFaults(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations } = (await page.evaluate("axe.run()")) as axe.AxeResults;
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

const confirm = (page: Page, name: string) => page.getByRole("dialog").getByRole("button", { name });

verifies(
  "dashboard.apps",
  "the list shows each app's state, version, replicas and runs, and is searched by an address",
  async () => {
    await service().call("hello");
    await service().service.settle();
    const { page, complaints } = await open("");
    const row = (name: string) => page.getByRole("row").filter({ has: page.getByRole("link", { name }) });
    await row("hello").getByText("ready", { exact: true }).waitFor();
    await row("hello").getByRole("img", { name: "1 run in the last 24 hours, 0 failed" }).waitFor();
    const cells = await row("hello").getByRole("cell").allInnerTexts();
    expect(cells.slice(0, 5)).toEqual(["hello", "ready", "1", "1", "1"]);
    await row("shop").getByText("cold", { exact: true }).waitFor();
    expect(await seriousFaults(page)).toEqual([]);

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
    await page.getByRole("button", { name: "Show all 2" }).click();
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
    const { page, complaints } = await open("/doomed/settings");
    const { owner } = service().service;
    const least = page.getByLabel("Replicas, at least");
    await page.getByText("deployment.python_version").waitFor();
    expect(await least.inputValue()).toBe("0");
    await least.fill("9999");
    await page.getByLabel("Cooldown, seconds").fill("7");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("must be a whole number from 0 to 2000").waitFor();
    await least.fill("1");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("changed since the deploy").waitFor();
    expect((await askAbout("doomed")).json).toMatchObject({
      minReplicaCount: "1",
      cooldownPeriodSeconds: "7",
    });
    expect(await seriousFaults(page)).toEqual([]);
    await page.getByRole("button", { name: "As configured" }).click();
    await page.getByText("changed since the deploy").waitFor({ state: "detached" });
    expect((await askAbout("doomed")).json).toMatchObject({
      minReplicaCount: "0",
      cooldownPeriodSeconds: "30",
    });

    await page.getByRole("navigation", { name: "App" }).getByRole("link", { name: "Danger" }).click();
    expect(new URL(page.url()).pathname).toBe(`/projects/${owner.projectId}/apps/doomed/danger`);
    const remove = page.getByRole("button", { name: "Delete doomed" });
    await page.getByLabel("Type doomed").fill("doome");
    expect(await remove.isDisabled()).toBe(true);
    expect(await seriousFaults(page)).toEqual([]);
    await page.getByLabel("Type doomed").fill("doomed");
    await remove.click();
    await page.getByText("doomed is deleted.").waitFor();
    await page.getByRole("link", { name: "hello" }).waitFor();
    expect(await page.getByRole("link", { name: "doomed" }).count()).toBe(0);
    expect((await askAbout("doomed")).status).toBe(404);
    // The one that did not fit.
    expect(complaints).toEqual([expect.stringContaining("400 (Bad Request)")]);
  },
);

verifies(
  "dashboard.builds",
  "a build is followed while it runs, another one cancelled, and the version before put back",
  async () => {
    const { baseUrl, owner } = service().service;
    const client = new DeployClient({ ...owner, baseUrl }, "shop");
    const begun = await client.begin({ shellCommands: [HELD] });
    const { page, complaints } = await open("/shop/builds");
    await client.put(begun, await zipOf({ "main.py": main("second").main }));
    await page.getByRole("link", { name: begun.buildId.slice(-8) }).click();
    const log = page.getByRole("log", { name: "Build log" });
    await log.getByText("<b>held</b>", { exact: true }).waitFor();
    await page.getByText("live", { exact: true }).waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    const folder = (await log.getByText(/^\//).first().innerText()).trim();
    await writeFile(path.join(folder, "go"), "");
    await log.getByText("let go", { exact: true }).waitFor();
    await log.getByText("version 2 serves").waitFor();
    await page.getByText("live", { exact: true }).waitFor({ state: "detached" });
    await page.getByText("serves", { exact: true }).waitFor();
    expect((await service().call("shop")).json.result).toBe("second");

    const waiting = await client.begin();
    await page.getByRole("navigation", { name: "App" }).getByRole("link", { name: "Builds" }).click();
    await page.getByRole("link", { name: waiting.buildId.slice(-8) }).click();
    await page.getByRole("button", { name: "Cancel build" }).click();
    await confirm(page, "Cancel build").click();
    await page.getByText("The build is cancelled.").waitFor();
    await page.getByText("cancelled", { exact: true }).first().waitFor();
    expect(await client.status(waiting.buildId)).toBe("cancelled");

    await page.getByRole("navigation", { name: "App" }).getByRole("link", { name: "Builds" }).click();
    await page.getByRole("button", { name: "Serve version 1 again" }).click();
    await confirm(page, "Serve version 1").click();
    await page.getByText("Version 1 serves.").waitFor();
    await page.getByRole("button", { name: "Serve version 2 again" }).waitFor();
    expect((await service().call("shop")).json.result).toBe("first");
    expect(await seriousFaults(page)).toEqual([]);
    expect(complaints).toEqual([]);
  },
);

verifies(
  "dashboard.secrets",
  "secrets are added, shown on demand, changed and removed, and one that stands over the project's says so",
  async () => {
    const { baseUrl, owner } = service().service;
    const bearer = { authorization: `Bearer ${owner.token}` };
    await fetch(`${baseUrl}/v2/projects/${owner.projectId}/secrets`, {
      method: "PATCH",
      headers: { ...bearer, "content-type": "application/json" },
      body: JSON.stringify({ SHARED: "of all", REGION: "here" }),
    });
    const { page, complaints } = await open("/hello/secrets");
    const secrets = async () => (await askAbout("hello/secrets")).json;
    await page.getByText("No secrets yet").waitFor();
    await page.getByText("REGION").waitFor();
    await page.getByRole("button", { name: "Add secret" }).click();
    await page.getByLabel("Name").fill("not a name");
    await page.getByText("Only letters").waitFor();
    await page.getByLabel("Name").fill("SHARED");
    await page.getByText("The project has a secret of this name too").waitFor();
    await page.getByLabel("Value").fill("<script>alert(1)</script>");
    expect(await seriousFaults(page)).toEqual([]);
    await confirm(page, "Add secret").click();
    await page.getByText("SHARED is added.").waitFor();
    await page.getByText("over the project’s").waitFor();
    expect(await page.getByText("<script>").count()).toBe(0);
    await page.getByRole("button", { name: "Show SHARED" }).click();
    await page.getByText("<script>alert(1)</script>", { exact: true }).waitFor();
    expect(await secrets()).toEqual({ SHARED: "<script>alert(1)</script>" });

    await page.getByRole("button", { name: "Change SHARED" }).click();
    await page.getByLabel("Value").fill("two\nlines");
    await confirm(page, "Change secret").click();
    await page.getByText("SHARED is changed.").waitFor();
    expect(await secrets()).toEqual({ SHARED: "two\nlines" });
    expect(await seriousFaults(page)).toEqual([]);
    await page.getByRole("button", { name: "Remove SHARED" }).click();
    await confirm(page, "Remove secret").click();
    await page.getByText("No secrets yet").waitFor();
    expect(await secrets()).toEqual({});

    await page.getByRole("link", { name: "project’s settings" }).click();
    await page.getByRole("button", { name: "Add secret" }).click();
    await page.getByLabel("Name").fill("REGION");
    await page.getByText("There is one of that name").waitFor();
    await page.getByLabel("Name").fill("EVERYWHERE");
    await page.getByLabel("Value").fill("in each app");
    await confirm(page, "Add secret").click();
    await page.getByText("EVERYWHERE is added.").waitFor();
    await page.getByRole("button", { name: "Remove SHARED" }).click();
    await confirm(page, "Remove secret").click();
    // The word of the app's own removal may still stand there; the row goes when this one is done.
    await page.getByRole("button", { name: "Remove SHARED" }).waitFor({ state: "detached" });
    const ofAll = await fetch(`${baseUrl}/v2/projects/${owner.projectId}/secrets`, { headers: bearer });
    expect(await ofAll.json()).toEqual({ REGION: "here", EVERYWHERE: "in each app" });
    expect(await seriousFaults(page)).toEqual([]);
    expect(complaints).toEqual([]);
  },
);
