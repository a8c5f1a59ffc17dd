import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { sharedBrowser } from "../support/browser.ts";
import { OWNER, openPage } from "../support/dashboard-site.ts";
import { freePort } from "../support/free-port.ts";
import { placeOf } from "../support/made.ts";
import { testService } from "../support/service.ts";
import { serverApp } from "../support/servers/server-app.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { tlsFront } from "../support/tls-front.ts";
import { verifies } from "../verifies.ts";

const PAGES = readFileSync(path.join(REPOSITORY, "test/support/servers/pages.py"), "utf8");
const PUBLIC = serverApp({ toml: "[deployment]\ndisable_auth = true\n[scaling]\nmax_replicas = 1\n" }, PAGES);
const COOKIE = "__Host-millrace_refresh";

const browser = sharedBrowser();

verifies(
  ["cookies.prefix", "cookies.apps", "origins.headers", "cookies.two"],
  "under HTTPS no page of an app, on whatever host, changes who is signed in",
  async () => {
    const [base, api] = [await tlsFront(), await tlsFront()];
    const baseUrl = `https://board.site.test:${base.port}`;
    const apiUrl = `https://board.site.test:${api.port}`;
    const ports = { basePort: await freePort(), apiPort: await freePort() };
    const { service } = await testService(
      { web: PUBLIC },
      { ...ports, publicBaseUrl: baseUrl, publicApiUrl: apiUrl, appHosts: "*.apps.site.test" },
      { webDir: await placeOf("dashboard") },
    );
    base.target = `http://127.0.0.1:${ports.basePort}`;
    api.target = `http://127.0.0.1:${ports.apiPort}`;
    const ownUrl = `https://web--${service.owner.projectId}.apps.site.test:${api.port}`;
    const sharedUrl = `${apiUrl}/v4/${service.owner.projectId}/web`;

    const { page, context } = await openPage(browser(), { ignoreHTTPSErrors: true });
    const isIn = async (): Promise<void> => {
      await page.getByRole("navigation", { name: "Project" }).waitFor();
    };
    const staysIn = async (): Promise<void> => {
      await page.goto(`${baseUrl}/`);
      await isIn();
    };
    await page.goto(service.setupLink ?? "");
    await page.getByLabel("E-mail").fill(OWNER.email);
    await page.getByLabel("Password").fill(OWNER.password);
    await page.getByRole("button", { name: "Create the owner" }).click();
    await isIn();
    const kept = async () => (await context.cookies()).filter(({ name }) => name === COOKIE);
    expect(await kept()).toMatchObject([
      { path: "/", secure: true, httpOnly: true, sameSite: "Strict", domain: "board.site.test" },
    ]);

    // It reaches the port of the apps, and no app.
    await page.goto(`${sharedUrl}/`);
    await page.goto(`${sharedUrl}/cookie`);
    expect(await page.evaluate("document.body.innerText")).toBe("");
    expect(api.cookies.some((cookies) => cookies.includes(`${COOKIE}=mrr_`))).toBe(true);

    // Pages on the same host, and on another host of the same site.
    for (const from of [sharedUrl, ownUrl]) {
      await page.goto(`${from}/`);
      for (const cookie of [
        "millrace_refresh=x; path=/v2/session/refresh; Secure",
        "millrace_refresh=x; path=/v2/session/refresh; Domain=site.test; Secure",
        `${COOKIE}=x; path=/; Domain=site.test; Secure`,
        `${COOKIE}=x; path=/v2/session/refresh; Secure`,
        `${COOKIE}=x; path=/`,
        `${COOKIE}=x; path=/; Secure`,
        `=${COOKIE}=x; path=/; Secure`,
      ])
        await page.evaluate(`document.cookie = ${JSON.stringify(cookie)}`);
      await staysIn();
    }
    // What would clear the cookies of all hosts of the site.
    for (const from of [sharedUrl, ownUrl]) {
      await page.goto(`${from}/headers?Clear-Site-Data=${encodeURIComponent('"cookies", "storage"')}`);
      await staysIn();
    }
    // A partitioned cookie is another one of the same name: then none counts, and both are gone.
    await page.goto(`${sharedUrl}/`);
    await page.evaluate(`document.cookie = "${COOKIE}=x; path=/; Secure; Partitioned"`);
    expect((await kept()).filter(({ domain }) => domain === "board.site.test")).toHaveLength(2);
    await page.goto(`${baseUrl}/`);
    await page.getByLabel("E-mail").fill(OWNER.email);
    await page.getByLabel("Password").fill(OWNER.password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await isIn();
    await staysIn();
    expect((await kept()).filter(({ domain }) => domain === "board.site.test")).toHaveLength(1);
  },
);
