import { stat } from "node:fs/promises";
import type { Page } from "playwright-core";
import { beforeAll, expect } from "vitest";
import { sharedBrowser } from "../../support/browser.ts";
import { asOwner, upload } from "../../support/dashboard-data.ts";
import { OWNER, builtDashboard, makeOwner, openPage, signIn } from "../../support/dashboard-site.ts";
import { DeployClient } from "../../support/deploy-client.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { zipOf } from "../../support/zip.ts";
import { verifies } from "../../verifies.ts";

/** Markup that would run, and a mark that turns the text behind it around. */
const BAD = '<img src=x onerror="hacked=1"><script>hacked=1</script>\u202eabc';
const TEN_MB = 10 * 1024 * 1024;
const MAIN = `
import sys
BAD = ${JSON.stringify(BAD)}
print("importing", BAD)

def run(text: str = BAD, other: dict = {BAD: BAD}):
    print(BAD)
    print("\\x1b[31mred\\x1b[0m \\x07\\x08\\x00 bell", "w" * 10_000, file=sys.stderr)
    return {BAD: BAD, "long": "x" * 10_000, "text": text}

def fail():
    raise ValueError(BAD + "y" * 10_000)

def big():
    return ["<b>" * 1_000] * (${TEN_MB} // 3_000)

def many():
    for i in range(20_000):
        yield BAD + str(i)
    yield "z" * 3_000_000
`;

const webDir = await builtDashboard();
const service = sharedService({}, { webhookAllow: "127.0.0.0/8" }, { webDir });
const browser = sharedBrowser();

beforeAll(async () => {
  await makeOwner(service());
});

/** Everything that can carry a text from outside carries a bad one; gives the addresses where it is shown. */
async function poison(): Promise<{ places: Record<string, string>; big: string }> {
  const test = service();
  const { owner, baseUrl } = test.service;
  const ask = asOwner(test);
  const client = new DeployClient({ baseUrl, projectId: owner.projectId, token: owner.token }, "hostile");
  const { buildId } = await client.deploy(await zipOf({ "main.py": MAIN }));
  const call = async (functionName: string, body: object = {}, suffix = "?async=true"): Promise<string> =>
    (await test.call("hostile", body, { functionName, suffix })).headers.get("x-request-id") ?? "";
  const hook = encodeURIComponent(`http://127.0.0.1:9/${"h".repeat(1_000)}?a=${BAD}`);
  const run = await call("run", { text: BAD.repeat(100) }, `?async=true&webhookEndpoint=${hook}`);
  const [fail, big, many] = [await call("fail"), await call("big"), await call("many")];
  const { accessToken } = await ask<{ accessToken: string }>("POST", "/v2/session", OWNER);
  await ask("POST", "/v2/projects", { name: BAD }, accessToken);
  const project = `/v2/projects/${owner.projectId}`;
  await ask("POST", `${project}/service-accounts`, { name: BAD, description: BAD });
  await ask("PATCH", `${project}/apps/${owner.projectId}-hostile/secrets`, {
    KEY: BAD,
    ["N".repeat(253)]: BAD,
  });
  await upload(test, BAD.replaceAll("/", "") + "f".repeat(150), Buffer.from(BAD));
  for (const id of [run, fail, big, many]) {
    await until(
      `the run ${id} ends`,
      async () => !/queued|running/.test((await test.ofRun("hostile", id)).json.status),
    );
  }
  await test.service.settle();
  const [at, app] = [`/projects/${owner.projectId}`, `/projects/${owner.projectId}/apps/hostile`];
  const places = {
    overview: at,
    runs: `${at}/runs?function=${encodeURIComponent(BAD)}`,
    "run that returned": `${app}/runs/${run}`,
    "run that raised": `${app}/runs/${fail}`,
    "run of 10 MB": `${app}/runs/${big}`,
    "run of many messages": `${app}/runs/${many}`,
    "text of many messages": `${app}/runs/${many}?view=text`,
    logs: `${app}/logs`,
    "logs in long lines": `${app}/logs?wrap=false`,
    build: `${app}/builds/${buildId}`,
    playground: `${app}/playground?from=${run}`,
    "playground as JSON": `${app}/playground?from=${run}&input=json`,
    secrets: `${app}/secrets`,
    "app that is not there": `${at}/apps/${encodeURIComponent(BAD)}`,
    keys: `${at}/keys`,
    webhooks: `${at}/webhooks`,
    delivery: `${at}/webhooks/${run}`,
    files: `${at}/files`,
    "folder that is not there": `${at}/files?dir=${encodeURIComponent(BAD)}`,
    audit: `${at}/audit`,
    settings: `${at}/settings`,
  };
  return { places, big: places["run of 10 MB"] };
}

/** What went wrong on a page that shows bad texts. */
async function faultsOf(page: Page): Promise<string[]> {
  const found = await page.evaluate<Record<string, boolean>>(`({
    "a script ran": "hacked" in globalThis,
    "markup became elements": document.querySelector("#root :is(script, img:not([src='/mark.svg']), b > b)") !== null,
    "the page scrolls sideways": document.documentElement.scrollWidth > document.documentElement.clientWidth,
    "too much is drawn": document.body.textContent.length > 1_500_000 || document.querySelectorAll("*").length > 20_000,
  })`);
  return Object.keys(found).filter((fault) => found[fault]);
}

verifies(
  "dashboard.hostile",
  "whatever names, outputs and logs hold is shown as text on every page, 10 MB of it too, at 360 px",
  async () => {
    const { baseUrl } = service().service;
    const { places, big } = await poison();
    const { page, complaints } = await openPage(browser(), { viewport: { width: 360, height: 740 } });
    page.on("dialog", (dialog) => complaints.push(dialog.message()));
    await signIn(page, baseUrl).catch(() => undefined);
    const wrong: string[] = [];
    const seen: string[] = [];
    for (const [name, to] of Object.entries(places)) {
      await page.goto(baseUrl + to);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await until(
        `${name} is whole`,
        async () => (await page.locator(".bg-line[class*='shimmer_1.6s']").count()) === 0,
      );
      wrong.push(...(await faultsOf(page)).map((fault) => `${name}: ${fault}`));
      if ((await page.content()).includes("&lt;script&gt;hacked=1")) seen.push(name);
      // It is still there for whoever uses it.
      await page.getByRole("button", { name: "Menu" }).click();
      await page.getByRole("link", { name: "Audit" }).waitFor();
    }
    expect(wrong).toEqual([]);
    expect(complaints.filter((text) => !/status of (404|500)/.test(text))).toEqual([]);
    expect(seen).toEqual(
      expect.arrayContaining(["overview", "run that returned", "run that raised", "logs", "build"]),
    );
    expect(seen).toEqual(
      expect.arrayContaining(["keys", "webhooks", "delivery", "files", "audit", "settings"]),
    );

    await page.goto(baseUrl + big);
    const begun = page.waitForEvent("download");
    // The first one is the input's, and may come earlier.
    await page.getByRole("button", { name: "Download" }).nth(1).click();
    const { size } = await stat(await (await begun).path());
    expect(size).toBeGreaterThan(TEN_MB);
  },
);
