import { stat } from "node:fs/promises";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { asOwner } from "../support/as-owner.ts";
import { upload } from "../support/dashboard-data.ts";
import { OWNER, addressOf, card, isWhole, placeLink, sharedDashboard } from "../support/dashboard-site.ts";
import { DeployClient } from "../support/deploy-client.ts";
import { hiddenOnPage } from "../support/page-text.ts";
import { until } from "../support/until.ts";
import { zipOf } from "../support/zip.ts";
import { verifies } from "../verifies.ts";

/** Markup that would run, a mark that turns the text behind it around, and characters that nobody sees. */
const BAD =
  '<img src=x onerror="hacked=1"><script>hacked=1</script>\u202eabc\u200f\u2067\u061c\u200b\ufeff\u2028\u{e0041}d';
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

const { service, open } = sharedDashboard({}, { webhookAllow: "127.0.0.0/8" });

/** What is seen of the bad text, also where a name has no slashes. */
const SEEN = "<script>hacked=1";
/** An address is seen as it is sent: the bad text has been made harmless in it. */
const SEEN_IN_ADDRESS = "%3Cscript%3Ehacked=1";

/** A place of the project, and what is seen of the bad text there. */
type Place = { readonly name: string; readonly at: string; readonly shows?: string };

/** Everything that can carry a text from outside carries a bad one; gives the places where it is shown. */
async function poison(): Promise<{ places: Place[]; big: string }> {
  const test = service();
  const { owner, baseUrl } = test.service;
  const ask = asOwner(test);
  const client = new DeployClient({ baseUrl, projectId: owner.projectId, token: owner.token }, "hostile");
  const { buildId } = await client.deploy(await zipOf({ "main.py": MAIN, "bad.txt": BAD }), {
    shellCommands: ["cat bad.txt"],
  });
  const call = async (functionName: string, body: object = {}, suffix = "?async=true"): Promise<string> => {
    const { status, json } = await test.call("hostile", body, { functionName, suffix });
    expect([functionName, status]).toEqual([functionName, 202]);
    return json.run_id as string;
  };
  // A webhook's address holds no space.
  const hook = encodeURIComponent(`http://127.0.0.1:9/${"h".repeat(1_000)}?a=${BAD.replaceAll(" ", "")}`);
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
  const [app, bad] = ["/apps/hostile", encodeURIComponent(BAD)];
  const places: Place[] = [
    { name: "overview", at: "", shows: SEEN },
    { name: "runs", at: `/runs?function=${bad}` },
    { name: "run that returned", at: `${app}/runs/${run}`, shows: SEEN },
    { name: "run that raised", at: `${app}/runs/${fail}`, shows: SEEN },
    { name: "run of 10 MB", at: `${app}/runs/${big}` },
    { name: "run of many messages", at: `${app}/runs/${many}`, shows: SEEN },
    { name: "text of many messages", at: `${app}/runs/${many}?view=text`, shows: SEEN },
    { name: "logs", at: `${app}/logs`, shows: SEEN },
    { name: "logs in long lines", at: `${app}/logs?wrap=false`, shows: SEEN },
    { name: "build", at: `${app}/builds/${buildId}`, shows: SEEN },
    { name: "playground", at: `${app}/playground?from=${run}`, shows: SEEN },
    { name: "playground as JSON", at: `${app}/playground?from=${run}&input=json` },
    { name: "secrets", at: `${app}/secrets` },
    { name: "app that is not there", at: `/apps/${bad}`, shows: SEEN },
    { name: "keys", at: "/keys", shows: SEEN },
    { name: "webhooks", at: "/webhooks", shows: SEEN_IN_ADDRESS },
    { name: "delivery", at: `/webhooks/${run}`, shows: SEEN_IN_ADDRESS },
    { name: "files", at: "/files", shows: SEEN },
    { name: "folder that is not there", at: `/files?dir=${bad}`, shows: SEEN },
    { name: "audit", at: "/audit", shows: SEEN },
    { name: "settings", at: "/settings", shows: SEEN },
  ];
  return { places, big: `${app}/runs/${big}` };
}

/** What went wrong on a page that shows bad texts. */
async function faultsOf(page: Page): Promise<string[]> {
  const found = await page.evaluate<Record<string, boolean>>(`({
    "a script ran": "hacked" in globalThis,
    "markup became elements": document.querySelector("#root :is(script, img:not([src='/mark.svg']), b > b)") !== null,
    "the page scrolls sideways": document.documentElement.scrollWidth > document.documentElement.clientWidth,
    "too much is drawn": document.body.textContent.length > 1_500_000 || document.querySelectorAll("*").length > 20_000,
  })`);
  return [...Object.keys(found).filter((fault) => found[fault]), ...(await hiddenOnPage(page))];
}

verifies(
  ["dashboard.hostile", "dashboard.visible"],
  "whatever names, outputs and logs hold is shown as text on every page, 10 MB of it too, at 360 px",
  async () => {
    const { places, big } = await poison();
    const { page, complaints } = await open("", { viewport: { width: 360, height: 740 } });
    page.on("dialog", (dialog) => complaints.push(dialog.message()));
    // In the page itself, not in the list of projects beside it, which has a bad name too.
    const seen = (text: string) => page.locator("main").getByText(text).first();
    await isWhole(page);
    const wrong: string[] = [];
    for (const { name, at, shows } of places) {
      await page.goto(addressOf(service(), at));
      await isWhole(page);
      if (shows !== undefined) await seen(shows).waitFor();
      wrong.push(...(await faultsOf(page)).map((fault) => `${name}: ${fault}`));
      // It is still there for whoever uses it.
      await page.getByRole("button", { name: "Menu", exact: true }).click();
      await placeLink(page, "Audit").waitFor();
    }
    expect(wrong).toEqual([]);
    expect(complaints.filter((text) => !/status of (404|500)/.test(text))).toEqual([]);

    await page.goto(addressOf(service(), big));
    const begun = page.waitForEvent("download");
    await card(page, "Output").getByRole("button", { name: "Download", exact: true }).click();
    const { size } = await stat(await (await begun).path());
    expect(size).toBeGreaterThan(TEN_MB);
  },
);
