import path from "node:path";
import type { Page } from "playwright-core";
import { afterAll, expect } from "vitest";
import { drawn, seriousFaults } from "../support/axe.ts";
import { furnish, type Furnished, SHOWN_APPS, SHOWN_FLAGS } from "../support/dashboard-data.ts";
import { dialogField, inDialog, isWhole, pathOf, sharedDashboard } from "../support/dashboard-site.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { verifies } from "../verifies.ts";

const SCREENS = path.join(REPOSITORY, "test-output", "screens");
/** Pictures are for people: they are made when somebody asks for them. */
const IS_PICTURED = process.env["MILLRACE_SCREENS"] !== undefined;
const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };

// It would send mail, if anybody asked for any.
const MAIL = { smtpUrl: "smtp://localhost:1", smtpFrom: "no-reply@millrace.example" };
const { service, open } = sharedDashboard(SHOWN_APPS, { ...SHOWN_FLAGS, ...MAIL });
/** What there is to see, made by the first who looks. */
let furnishing: Promise<Furnished> | null = null;

// Before the service is stopped, which waits for what runs.
afterAll(async () => (await furnishing)?.release());

/** Every page by a name, with what is done there before it is looked at. */
type Place = {
  readonly name: string;
  readonly to: string;
  readonly prepare?: (page: Page) => Promise<void>;
  /** Of a page that has all its pictures already: two are enough. */
  readonly isState?: true;
  /** As somebody sees it who is not signed in; so are all after it. */
  readonly isSignedOut?: true;
};

function ofProject({ emptyProject, deliveries }: Furnished): Place[] {
  const project = pathOf(service(), "");
  const empty = `/projects/${emptyProject}`;
  return [
    { name: "overview", to: project },
    { name: "overview-empty", to: empty, isState: true },
    { name: "apps", to: `${project}/apps` },
    { name: "runs", to: `${project}/runs` },
    { name: "runs-none", to: `${project}/runs?function=none`, isState: true },
    { name: "runs-empty", to: `${empty}/runs`, isState: true },
    { name: "keys", to: `${project}/keys` },
    {
      name: "keys-create",
      to: `${project}/keys`,
      prepare: async (page) => await page.getByRole("button", { name: "Create key", exact: true }).click(),
    },
    { name: "webhooks", to: `${project}/webhooks` },
    { name: "webhooks-empty", to: `${empty}/webhooks`, isState: true },
    { name: "delivery", to: `${project}/webhooks/${deliveries.failed}` },
    { name: "files", to: `${project}/files` },
    { name: "files-empty", to: `${empty}/files`, isState: true },
    { name: "usage", to: `${project}/usage` },
    { name: "audit", to: `${project}/audit` },
    { name: "nodes", to: `${project}/nodes` },
    { name: "hardware", to: `${project}/hardware` },
    { name: "settings", to: `${project}/settings` },
    { name: "settings-empty", to: `${empty}/settings`, isState: true },
    {
      name: "settings-invite",
      to: `${project}/settings`,
      prepare: async (page) =>
        await page.getByRole("button", { name: "Invite somebody", exact: true }).click(),
    },
    {
      name: "settings-invited",
      to: `${project}/settings`,
      prepare: async (page) => {
        await page.getByRole("button", { name: "Invite somebody", exact: true }).click();
        await dialogField(page, "E-mail").fill("guest@example.test");
        await dialogField(page, "How to send it").selectOption("link");
        await inDialog(page, "Invite").click();
        await inDialog(page, "I have copied it").waitFor();
      },
      isState: true,
    },
    {
      name: "settings-remove-member",
      to: `${project}/settings`,
      prepare: async (page) =>
        await page.getByRole("button", { name: "Remove colleague@example.test" }).click(),
      isState: true,
    },
    {
      name: "settings-refused",
      to: `${project}/settings`,
      prepare: async (page) => {
        await page.getByLabel("New address").fill("other@example.test");
        await page.getByLabel("Your password").fill("not the password");
        await page.getByRole("button", { name: "Change address" }).click();
        await page.getByRole("alert").waitFor();
      },
      isState: true,
    },
    {
      name: "settings-password-link",
      to: `${project}/settings`,
      prepare: async (page) => {
        await page.getByRole("button", { name: "Password link for colleague@example.test" }).click();
        await page.getByText("I have copied it").waitFor();
      },
      isState: true,
    },
    { name: "not-found", to: `${project}/none`, isState: true },
    {
      name: "palette",
      to: `${project}/keys`,
      prepare: async (page) => await page.keyboard.press("Control+k"),
    },
  ];
}

function ofEntrance({ inviteUrl }: Furnished): Place[] {
  const invitation = inviteUrl.slice(inviteUrl.indexOf("/invitation"));
  return [
    { name: "device", to: "/device?user_code=ABCD-EFGH" },
    { name: "set-up", to: "/setup#link" },
    { name: "password", to: "/password#link" },
    { name: "forgotten", to: "/forgotten" },
    {
      name: "forgotten-sent",
      to: "/forgotten",
      prepare: async (page) => {
        await page.getByLabel("E-mail").fill("colleague@example.test");
        await page.getByRole("button", { name: "Mail me a link" }).click();
        await page.getByText("Check your mail").waitFor();
      },
      isState: true,
    },
    { name: "set-up-cut", to: "/setup", isState: true },
    { name: "prove", to: "/prove#link" },
    { name: "invitation", to: invitation },
    { name: "sign-in", to: "/sign-in", isSignedOut: true },
    {
      name: "sign-in-refused",
      to: "/sign-in",
      prepare: async (page) => {
        await page.getByLabel("E-mail").fill("colleague@example.test");
        await page.getByLabel("Password").fill("not the password");
        await page.getByRole("button", { name: "Sign in" }).click();
        await page.getByRole("alert").waitFor();
      },
      isState: true,
    },
    { name: "invitation-sign-up", to: invitation },
    {
      name: "invitation-sign-in",
      to: invitation,
      prepare: async (page) =>
        await page.getByRole("button", { name: "I already have an account", exact: true }).click(),
      isState: true,
    },
    { name: "prove-sign-in", to: "/prove#link", isState: true },
    { name: "invitation-void", to: "/invitation#none", isState: true },
  ];
}

function ofApp({ builds, runs, deliveries }: Furnished): Place[] {
  const project = pathOf(service(), "");
  const app = `${project}/apps/summarize`;
  return [
    { name: "app-overview", to: app },
    { name: "app-runs", to: `${app}/runs` },
    { name: "app-queue", to: `${app}/queue` },
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
      prepare: async (page) => await page.getByRole("button", { name: "Add secret", exact: true }).click(),
      isState: true,
    },
    { name: "app-danger", to: `${app}/danger` },
    { name: "app-not-found", to: `${project}/apps/none`, isState: true },
    { name: "run", to: `${app}/runs/${runs.success}` },
    { name: "run-stream", to: `${app}/runs/${runs.stream}`, isState: true },
    { name: "run-failure", to: `${app}/runs/${runs.failure}`, isState: true },
    { name: "run-forwarded", to: `${app}/runs/${deliveries.pending}`, isState: true },
    { name: "run-running", to: `${project}/apps/slow-batches/runs/${runs.running}` },
  ];
}

/** How far the page itself can be scrolled sideways. */
const SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth";

/** Puts pictures of a place as it is now beside those of the others, in both colours and both sizes. */
async function picture(page: Page, { name, isState }: Place): Promise<void> {
  for (const theme of ["light", "dark"] as const) {
    for (const kind of ["desktop", "phone"] as const) {
      if (isState && (theme === "light") !== (kind === "desktop")) continue;
      await show(page, theme, kind);
      const file = path.join(SCREENS, `${name}-${theme}-${kind}.png`);
      await page.screenshot({ path: file, fullPage: true, animations: "disabled" });
    }
  }
}

async function show(page: Page, theme: "light" | "dark", kind: keyof typeof SIZES): Promise<void> {
  await page.evaluate(`document.documentElement.classList.toggle("dark", ${theme === "dark"})`);
  await page.setViewportSize(SIZES[kind]);
  await drawn(page);
}

/**
 * Goes to a place, within a project as a link would: a page that is loaded anew takes twice as long to be looked at.
 * It goes by way of one that is like no other, so that it is known when the place is there.
 */
async function goTo(page: Page, to: string): Promise<void> {
  if (!to.startsWith("/projects/") || to.endsWith("/none")) {
    await page.goto(service().service.baseUrl + to);
    return;
  }
  const moveTo = async (next: string): Promise<void> =>
    await page.evaluate(`history.pushState({}, "", ${JSON.stringify(next)})`);
  const none = page.getByText("There is no such page");
  await moveTo(pathOf(service(), "/none"));
  await none.waitFor();
  await moveTo(to);
  await none.waitFor({ state: "detached" });
}

/** What is wrong with places, each looked at in light colours on a desk and in dark ones on a phone. */
async function faultsOf(page: Page, places: readonly Place[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const place of places) {
    const { name, to, prepare, isSignedOut } = place;
    await page.setViewportSize(SIZES.desktop);
    if (isSignedOut) await page.context().clearCookies();
    await goTo(page, to);
    await isWhole(page);
    await prepare?.(page);
    if (IS_PICTURED) await picture(page, place);
    for (const [theme, kind] of [
      ["light", "desktop"],
      ["dark", "phone"],
    ] as const) {
      await show(page, theme, kind);
      const isAgain = kind === "phone";
      const faults = await seriousFaults(page, { isAgain });
      wrong.push(...faults.map((fault) => `${name}, ${theme}, ${kind}: ${fault}`));
      if ((await page.evaluate<number>(SIDEWAYS)) > 0) wrong.push(`${name}, ${kind}: scrolls sideways`);
    }
    if ((await page.locator("[tabindex]:not([tabindex='0'], [tabindex='-1'])").count()) > 0)
      wrong.push(`${name}: an order of its own for Tab`);
    if (!(await page.title()).endsWith(" · Millrace")) wrong.push(`${name}: no title`);
  }
  return wrong;
}

// An app that is not there is asked for all the same; a wrong password, a bad link and nobody signed in are told so.
for (const [what, placesOf, expected] of [
  ["a project", ofProject, /status of (401|404|500)/],
  ["an app", ofApp, /status of (404|500)/],
  ["the entrance", ofEntrance, /status of (401|403)/],
] as const) {
  verifies(
    "dashboard.axe",
    `no page of ${what} has a serious accessibility fault or scrolls sideways on a desk or a phone`,
    async () => {
      furnishing ??= furnish(service());
      const places = placesOf(await furnishing);
      const { page, complaints } = await open("");
      await isWhole(page);
      expect(await faultsOf(page, places)).toEqual([]);
      expect(complaints.filter((text) => !expected.test(text))).toEqual([]);
    },
  );
}
