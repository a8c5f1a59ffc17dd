import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page } from "playwright-core";
import { beforeAll, onTestFinished } from "vitest";
import { Links } from "../../src/identity/links.ts";
import { Sessions } from "../../src/identity/sessions.ts";
import { systemClock } from "../../src/kit/clock.ts";
import { Seal, loadMasterKey } from "../../src/kit/seal.ts";
import { refreshCookieAt } from "../../src/management/people/refresh-cookie.ts";
import { sharedBrowser } from "./browser.ts";
import { explains } from "./explain.ts";
import { placeOf } from "./made.ts";
import { sharedService } from "./shared-service.ts";
import type { TestApp, TestService, TestServiceOptions } from "./service.ts";
import { until } from "./until.ts";

export const OWNER = { email: "owner@example.test", password: "a long enough password" } as const;

/** A page with its context, and what the browser complained about; a test looks at that when it is over. */
export type OpenedPage = {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly complaints: string[];
};

/** The service of a file's tests, whose dashboard has an owner, and a browser. */
export type Dashboard = {
  readonly service: () => TestService;
  readonly browser: () => Browser;
  /** Opens a place of the project, such as `/runs`, as its owner, who is signed in. */
  readonly open: (place: string, options?: BrowserContextOptions) => Promise<OpenedPage>;
  /** The same with any path of the dashboard. */
  readonly openPath: (path: string, options?: BrowserContextOptions) => Promise<OpenedPage>;
};

/** One service with a dashboard for all tests of a file; it has no owner yet. */
export function sharedDashboardService(
  apps: Record<string, TestApp> = {},
  flags: Record<string, unknown> = {},
  options: TestServiceOptions = {},
): () => TestService {
  const withWeb = { ...options, webDir: "" };
  beforeAll(async () => {
    withWeb.webDir = await placeOf("dashboard");
  });
  return sharedService(apps, flags, withWeb);
}

/** One service with a dashboard and an owner for all tests of a file; each opens pages of its own. */
export function sharedDashboard(
  apps: Record<string, TestApp> = {},
  flags: Record<string, unknown> = {},
  serviceOptions: TestServiceOptions = {},
): Dashboard {
  const service = sharedDashboardService(apps, flags, serviceOptions);
  const browser = sharedBrowser();
  beforeAll(async () => {
    await makeOwner(service());
  });
  const openPath: Dashboard["openPath"] = async (to, options) => {
    const opened = await openPage(browser(), options);
    await enter(opened.context, service());
    const { page } = opened;
    const isRenewal = (url: string): boolean => new URL(url).pathname === "/v2/session/refresh";
    // The page renews the session first, and the cookie with it.
    await Promise.all([
      page.waitForResponse((response) => isRenewal(response.url())),
      page.goto(service().service.baseUrl + to),
    ]);
    return opened;
  };
  const open: Dashboard["open"] = async (place, options) => await openPath(pathOf(service(), place), options);
  return { service, browser, open, openPath };
}

/** The path of a place in the service's project. */
export function pathOf({ service: { owner } }: TestService, place: string): string {
  return `/projects/${owner.projectId}${place}`;
}

/** Where the dashboard shows a place of the service's project. */
export function addressOf(test: TestService, place: string): string {
  return test.service.baseUrl + pathOf(test, place);
}

/** Makes the first person of a service, as the set-up link would. */
async function makeOwner({ service, settings }: TestService): Promise<void> {
  const seal = new Seal(loadMasterKey(path.join(settings.dataDir, "master.key")));
  const link = new Links(seal, systemClock).setup();
  const response = await fetch(`${service.baseUrl}/v2/setup`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ link, ...OWNER }),
  });
  if (!response.ok) throw new Error(`no owner: ${await response.text()}`);
}

/** Has the owner signed in, in all pages of a context; the way through the form is tested where it is the subject. */
async function enter(context: BrowserContext, { service }: TestService): Promise<void> {
  const { store, tokens, baseUrl } = service;
  const [person] = await store.people.listByEmail({ email: OWNER.email, limit: 1 });
  if (!person) throw new Error("there is no owner");
  const sessions = new Sessions({ store, tokens, clock: systemClock });
  const { refreshToken } = await sessions.open(person.id, "browser");
  const { hostname: domain } = new URL(baseUrl);
  const { name, path: sentTo } = refreshCookieAt(baseUrl);
  const cookie = { name, path: sentTo, value: refreshToken, domain };
  await context.addCookies([{ ...cookie, httpOnly: true, sameSite: "Strict" }]);
  // As a page that has signed in remembers it.
  await context.addInitScript(
    `if (location.origin === "${new URL(baseUrl).origin}") localStorage.person ??= "${person.id}"`,
  );
}

/** A page of its own in which nobody is signed in. */
export async function openPage(browser: Browser, options: BrowserContextOptions = {}): Promise<OpenedPage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  // The test's own deadline is the only one.
  page.setDefaultTimeout(0);
  const complaints: string[] = [];
  const silence = explains(() => pictured(page, complaints));
  onTestFinished(async () => {
    silence();
    await context.close();
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(`${message.text()} ${message.location().url}`);
  });
  return { page, context, complaints };
}

/** What a page shows, as a picture in a file, and what the browser complained about. */
async function pictured(page: Page, complaints: readonly string[]): Promise<string> {
  const file = path.join(await mkdtemp(path.join(tmpdir(), "millrace-page-")), "page.png");
  await page.screenshot({ path: file, timeout: 10_000 });
  return [`${page.url()} looks like ${file}`, ...complaints].join("\n");
}

/** Signs the owner in by the form, and waits for the dashboard. */
export async function signIn(page: Page, baseUrl: string, to = "/"): Promise<void> {
  await page.goto(`${baseUrl}/sign-in?to=${encodeURIComponent(to)}`);
  await page.getByLabel("E-mail").fill(OWNER.email);
  await page.getByLabel("Password").fill(OWNER.password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Project" }).waitFor();
}

/** A link of the navigation between the pages of a project. */
export function placeLink(page: Page, name: string): Locator {
  return page
    .getByRole("navigation", { name: "Project", exact: true })
    .getByRole("link", { name, exact: true });
}

/** A button of the dialog that is open. */
export function inDialog(page: Page, name: string): Locator {
  return page.getByRole("dialog").getByRole("button", { name, exact: true });
}

/** A field of the dialog that is open. */
export function dialogField(page: Page, label: string): Locator {
  return page.getByRole("dialog").getByLabel(label, { exact: true });
}

/** The card with that title. */
export function card(page: Page, title: string): Locator {
  return page
    .locator("section")
    .filter({ has: page.getByRole("heading", { level: 2, name: title, exact: true }) });
}

/** Does something that a corner of the page confirms; looks for it from before, since it goes away by itself. */
export async function says(page: Page, text: string, deed: () => Promise<void>): Promise<void> {
  await Promise.all([page.getByRole("status").filter({ hasText: text }).waitFor(), deed()]);
}

/** Waits until so many elements are there. */
export async function thereAre(count: number, found: Locator): Promise<void> {
  await until(`${count} of ${String(found)}`, async () => (await found.count()) === count);
}

/** Waits until nothing stands in for something that is on its way. */
export async function isWhole(page: Page): Promise<void> {
  await page.getByRole("heading").first().waitFor();
  await thereAre(0, page.locator(".bg-line[class*='shimmer_1.6s']"));
}
