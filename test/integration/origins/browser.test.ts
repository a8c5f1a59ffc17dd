import { readFileSync } from "node:fs";
import path from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, expect } from "vitest";
import { OWNER, addressOf, openPage, sharedDashboard } from "../../support/dashboard-site.ts";
import { deployInto, secondProject, type SecondProject } from "../../support/second-project.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

const PAGES = readFileSync(path.join(REPOSITORY, "test/support/servers/pages.py"), "utf8");
const PUBLIC = serverApp(
  { toml: "[deployment]\ndisable_auth = true\n[scaling]\nmax_replicas = 1\nreplica_concurrency = 8\n" },
  PAGES,
);
/** The project of whoever attacks. */
const THEIRS = "p-theirs";

// Browsers take every name below `localhost` for this machine, and for as good as HTTPS.
const { service, browser, open } = sharedDashboard({ victim: PUBLIC }, { appHosts: "*.localhost" });

let theirs: SecondProject;
beforeAll(async () => {
  theirs = await secondProject(service(), THEIRS);
  await deployInto(service(), theirs, "attacker", PUBLIC);
});

const sharedUrl = (project: string, app: string, rest: string): string =>
  `${service().service.apiUrl}/v4/${project}/${app}${rest}`;
const ownUrl = (project: string, app: string, rest: string): string =>
  `http://${app}--${project}.localhost:${new URL(service().service.apiUrl).port}${rest}`;
const victims = (): string => service().service.owner.projectId;

/** The refresh cookie of somebody who is a member of the attacker's project alone. */
async function theirCookie(): Promise<string> {
  const { baseUrl } = service().service;
  const ask = async (path: string, body: object, token?: string): Promise<Response> =>
    await fetch(baseUrl + path, {
      method: "POST",
      headers: { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) },
      body: JSON.stringify(body),
    });
  const email = "eve@example.test";
  const invited = await ask(`/v2/projects/${THEIRS}/invitations`, { email }, theirs.token);
  const { inviteUrl } = (await invited.json()) as { inviteUrl: string };
  const link = inviteUrl.split("#")[1];
  const signedUp = await ask("/v2/invitation/sign-up", { link, email, password: "a long enough password" });
  return signedUp.headers.getSetCookie()[0]?.split(";")[0] ?? "";
}

/** What became of the attempt to have a worker control all pages of an origin. */
async function takeOver(page: Page, scope: string, script = "worker.js"): Promise<string> {
  return await page.evaluate<string>(`navigator.serviceWorker
    .register(${JSON.stringify(script)}, { scope: ${JSON.stringify(scope)} })
    .then(() => navigator.serviceWorker.ready)
    .then(() => "controls it", (error) => error.name)`);
}

verifies("origins.service-worker", "no worker of one project answers for the pages of another", async () => {
  const { page } = await openPage(browser());
  const theirs = `/v4/${THEIRS}/attacker`;
  const ours = `/v4/${victims()}/victim/`;
  await page.goto(sharedUrl(THEIRS, "attacker", "/"));
  for (const [script, scope] of [
    ["worker.js", "/"],
    ["worker.js", "/v4/"],
    ["worker.js", ours],
    // Without a slash behind the app, the script is in the folder of its project.
    [`${theirs}?worker`, "/v4/"],
    [`${theirs}?worker`, ours],
    [`${ours}../../${THEIRS}/attacker/worker.js`, ours],
  ] as const)
    expect([script, scope, await takeOver(page, scope, script)]).toEqual([script, scope, "SecurityError"]);
  await page.goto(sharedUrl(victims(), "victim", "/"));
  expect(await page.title()).toBe("victim /");
});

verifies(
  ["origins.service-worker", "origins.host"],
  "on its own host an app may have a worker for all paths, and absolute links, and reaches no other app",
  async () => {
    const { page } = await openPage(browser());
    await page.goto(ownUrl(victims(), "victim", "/"));
    await page.getByRole("link", { name: "next" }).click();
    await page.waitForURL(ownUrl(victims(), "victim", "/next"));
    expect(await page.title()).toBe("victim /next");

    await page.goto(ownUrl(THEIRS, "attacker", "/deep/"));
    expect(await takeOver(page, "/", "/worker.js")).toBe("controls it");
    await page.goto(ownUrl(THEIRS, "attacker", "/other"));
    expect(await page.title()).toBe("replaced");
    for (const url of [ownUrl(victims(), "victim", "/"), sharedUrl(victims(), "victim", "/")]) {
      await page.goto(url);
      expect(await page.title()).toBe("victim /");
    }
    // Nor does it share what browsers keep for an origin.
    await page.evaluate("localStorage.setItem('token', 'secret'); document.cookie = 'mine=1; path=/'");
    expect(await page.evaluate("document.cookie")).toBe("mine=1");
    await page.goto(ownUrl(THEIRS, "attacker", "/cookie"));
    expect(await page.evaluate("[localStorage.getItem('token'), document.cookie]")).toEqual([null, ""]);
  },
);

verifies(
  "cookies.two",
  "a cookie that an app's page has planted signs nobody in as somebody else",
  async () => {
    const { baseUrl } = service().service;
    const planted = (await theirCookie()).split("=")[1] ?? "";
    const plant = async (page: Page, cookie: string): Promise<void> => {
      await page.goto(sharedUrl(THEIRS, "attacker", "/"));
      await page.evaluate(`document.cookie = ${JSON.stringify(cookie)}`);
    };
    const enter = async (page: Page): Promise<void> => {
      await page.getByLabel("E-mail").fill(OWNER.email);
      await page.getByLabel("Password").fill(OWNER.password);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("heading", { name: "API keys" }).waitFor();
    };
    const { page, context } = await open("/keys");
    await page.getByRole("heading", { name: "API keys" }).waitFor();
    await plant(page, `millrace_refresh=${planted}; path=/v2/session/refresh`);
    const [renewal] = await Promise.all([
      page.waitForResponse((response) => response.url() === `${baseUrl}/v2/session/refresh`),
      page.goto(addressOf(service(), "/keys")),
    ]);
    expect(renewal.status()).toBe(401);
    // Whoever signs in now stays so: nothing of what was planted is left.
    await enter(page);
    await page.reload();
    await page.getByRole("heading", { name: "API keys" }).waitFor();

    // The only one there is, in place of the one that the browser has lost.
    await context.clearCookies();
    await plant(page, `millrace_refresh=${planted}; path=/v2/session`);
    await page.goto(addressOf(service(), "/keys"));
    await enter(page);
    // And where nobody has signed in.
    const { page: fresh } = await openPage(browser());
    await plant(fresh, `millrace_refresh=${planted}; path=/v2/session`);
    await fresh.goto(addressOf(service(), "/keys"));
    await enter(fresh);
  },
);
