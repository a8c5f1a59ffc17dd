import path from "node:path";
import axe from "axe-core";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";
import { beforeAll, expect, onTestFinished } from "vitest";
import { sharedBrowser } from "../../support/browser.ts";
import { SHOWN_APPS, SHOWN_FLAGS, furnish } from "../../support/dashboard-data.ts";
import type { Furnished } from "../../support/dashboard-data.ts";
import { builtDashboard, makeOwner, openPage, signIn } from "../../support/dashboard-site.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const SCREENS = path.join(REPOSITORY, "test-output", "screens");
const DESKTOP = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 844 };

const webDir = await builtDashboard();
// It would send mail, if anybody asked for any.
const MAIL = { smtpUrl: "smtp://localhost:1", smtpFrom: "no-reply@millrace.example" };
const service = sharedService(SHOWN_APPS, { ...SHOWN_FLAGS, ...MAIL }, { webDir });
const browser = sharedBrowser();

beforeAll(async () => {
  await makeOwner(service());
});

/** Every page by a name, with what is done there before it is looked at. */
type Place = {
  readonly name: string;
  readonly to: string;
  readonly open?: (page: Page) => Promise<void>;
  /** Of a page that has all its pictures already: two are enough. */
  readonly isState?: true;
  /** As somebody sees it who is not signed in; so are all after it. */
  readonly isSignedOut?: true;
};

function placesOf({ emptyProject, inviteUrl, builds, runs, deliveries }: Furnished): Place[] {
  const invitation = inviteUrl.slice(inviteUrl.indexOf("/invitation"));
  const project = `/projects/${service().service.owner.projectId}`;
  const app = `${project}/apps/summarize`;
  const empty = `/projects/${emptyProject}`;
  return [
    { name: "overview", to: project },
    { name: "overview-empty", to: empty, isState: true },
    { name: "apps", to: `${project}/apps` },
    { name: "app-overview", to: app },
    { name: "app-runs", to: `${app}/runs` },
    { name: "app-logs", to: `${app}/logs` },
    { name: "app-builds", to: `${app}/builds` },
    { name: "app-build", to: `${app}/builds/${builds.good}` },
    { name: "app-build-failed", to: `${app}/builds/${builds.bad}`, isState: true },
    { name: "app-playground", to: `${app}/playground` },
    { name: "app-settings", to: `${app}/settings` },
    { name: "app-secrets", to: `${app}/secrets` },
    {
      name: "app-secrets-add",
      to: `${app}/secrets`,
      open: async (page) => await page.getByRole("button", { name: "Add secret" }).click(),
      isState: true,
    },
    { name: "app-danger", to: `${app}/danger` },
    { name: "app-not-found", to: `${project}/apps/none`, isState: true },
    { name: "runs", to: `${project}/runs` },
    { name: "runs-none", to: `${project}/runs?function=none`, isState: true },
    { name: "runs-empty", to: `${empty}/runs`, isState: true },
    { name: "run", to: `${app}/runs/${runs.success}` },
    { name: "run-stream", to: `${app}/runs/${runs.stream}`, isState: true },
    { name: "run-failure", to: `${app}/runs/${runs.failure}`, isState: true },
    { name: "run-forwarded", to: `${app}/runs/${deliveries.pending}`, isState: true },
    { name: "run-running", to: `${project}/apps/slow-batches/runs/${runs.running}` },
    { name: "keys", to: `${project}/keys` },
    {
      name: "keys-create",
      to: `${project}/keys`,
      open: async (page) => await page.getByRole("button", { name: "Create key" }).click(),
    },
    { name: "webhooks", to: `${project}/webhooks` },
    { name: "webhooks-empty", to: `${empty}/webhooks`, isState: true },
    { name: "delivery", to: `${project}/webhooks/${deliveries.failed}` },
    { name: "files", to: `${project}/files` },
    { name: "files-empty", to: `${empty}/files`, isState: true },
    { name: "audit", to: `${project}/audit` },
    { name: "settings", to: `${project}/settings` },
    { name: "settings-empty", to: `${empty}/settings`, isState: true },
    {
      name: "settings-invite",
      to: `${project}/settings`,
      open: async (page) => await page.getByRole("button", { name: "Invite somebody" }).click(),
    },
    {
      name: "settings-password-link",
      to: `${project}/settings`,
      open: async (page) => {
        await page.getByRole("button", { name: "Password link for colleague@example.test" }).click();
        await page.getByText("I have copied it").waitFor();
      },
      isState: true,
    },
    { name: "not-found", to: `${project}/none`, isState: true },
    { name: "palette", to: `${project}/keys`, open: async (page) => await page.keyboard.press("Control+k") },
    { name: "device", to: "/device?user_code=ABCD-EFGH" },
    { name: "set-up", to: "/setup#link" },
    { name: "password", to: "/password#link" },
    { name: "forgotten", to: "/forgotten" },
    { name: "prove", to: "/prove#link" },
    { name: "invitation", to: invitation },
    { name: "sign-in", to: "/sign-in", isSignedOut: true },
    { name: "invitation-sign-up", to: invitation },
    {
      name: "invitation-sign-in",
      to: invitation,
      open: async (page) => await page.getByRole("button", { name: "I have an account" }).click(),
      isState: true,
    },
    { name: "prove-sign-in", to: "/prove#link", isState: true },
    { name: "invitation-void", to: "/invitation#none", isState: true },
  ];
}

/** Waits until nothing stands in for something that is on its way; false where something always does. */
async function isWhole(page: Page): Promise<boolean> {
  await page.getByRole("heading").first().waitFor();
  const waiting = page.locator(".bg-line[class*='shimmer_1.6s']");
  return await until("the page is whole", async () => (await waiting.count()) === 0).then(
    () => true,
    () => false,
  );
}

/** The serious faults that axe finds, each with where it is. */
async function faults(page: Page): Promise<string[]> {
  if (!(await page.evaluate<boolean>("typeof axe === 'object'"))) await page.evaluate(axe.source);
  const { violations } = await page.evaluate<AxeResults>("axe.run({ resultTypes: ['violations'] })");
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}

/** What is as wide as its place knows that a frame later. */
const DRAWN = "new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))";
/** How far the page itself can be scrolled sideways. */
const SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth";

verifies(
  "dashboard.axe",
  "no page has a serious accessibility fault or scrolls sideways, light or dark, on a desk or a phone",
  async () => {
    const { baseUrl } = service().service;
    const furnished = await furnish(service());
    onTestFinished(() => furnished.release());
    const { page, complaints } = await openPage(browser());
    await signIn(page, baseUrl);
    const wrong: string[] = [];
    for (const { name, to, open, isState, isSignedOut } of placesOf(furnished)) {
      await page.setViewportSize(DESKTOP);
      if (isSignedOut) await page.context().clearCookies();
      await page.goto(baseUrl + to);
      if (!(await isWhole(page))) wrong.push(`${name}: something never comes`);
      await open?.(page);
      for (const theme of ["light", "dark"]) {
        await page.evaluate(`document.documentElement.classList.toggle("dark", ${theme === "dark"})`);
        for (const [kind, size] of [
          ["desktop", DESKTOP],
          ["phone", PHONE],
        ] as const) {
          const isLookedAt = (theme === "light") === (kind === "desktop");
          if (isState && !isLookedAt) continue;
          await page.setViewportSize(size);
          await page.evaluate(DRAWN);
          const file = path.join(SCREENS, `${name}-${theme}-${kind}.png`);
          await page.screenshot({ path: file, fullPage: true, animations: "disabled" });
          if (!isLookedAt) continue;
          wrong.push(...(await faults(page)).map((fault) => `${name}, ${theme}, ${kind}: ${fault}`));
          if ((await page.evaluate<number>(SIDEWAYS)) > 0) wrong.push(`${name}, ${kind}: scrolls sideways`);
        }
      }
      if ((await page.locator("[tabindex]:not([tabindex='0'], [tabindex='-1'])").count()) > 0)
        wrong.push(`${name}: an order of its own for Tab`);
      if (!(await page.title()).endsWith(" · Millrace")) wrong.push(`${name}: no title`);
    }
    expect(wrong).toEqual([]);
    // An app that is not there is asked for all the same.
    expect(complaints.filter((text) => !/status of (401|403|404|500)/.test(text))).toEqual([]);
  },
  480_000,
);
