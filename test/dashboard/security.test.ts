import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { expect, onTestFinished, test } from "vitest";
import { OWNER, addressOf, openPage, pathOf, sharedDashboard, signIn } from "../support/dashboard-site.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const HELLO = { main: "def run(name='x'):\n    return f'Hello, {name}'\n" };

const { service, browser, open } = sharedDashboard({ hello: HELLO });

/** Places of a project, as the navigation names them. */
const PLACES = ["", "/apps", "/apps/hello", "/runs", "/keys", "/webhooks", "/files", "/audit", "/settings"];

const isSignedIn = async (page: Page): Promise<void> => {
  await page.getByRole("navigation", { name: "Project" }).waitFor();
};

/** A page of another site, of which a test says what it does. */
async function otherSite(html: string): Promise<{ port: number }> {
  const server = createServer((_, response) => {
    response
      .writeHead(200, { "content-type": "text/html" })
      .end(`<!doctype html><title>other</title>${html}`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port };
}

verifies(
  "dashboard.security",
  "whoever is signed in asks this service alone, and no script can reach what proves it",
  async () => {
    const { baseUrl, apiUrl } = service().service;
    const { page, context, complaints } = await openPage(browser());
    const origins = new Set<string>();
    page.on("request", (request) => origins.add(new URL(request.url()).origin));
    page.on("websocket", (socket) => origins.add(new URL(socket.url().replace("ws", "http")).origin));
    const reading: Promise<{ accessToken: string }>[] = [];
    page.on("response", (response) => {
      if (!/\/v2\/session(\/refresh)?$/.test(response.url()) || !response.ok()) return;
      reading.push(response.json() as Promise<{ accessToken: string }>);
    });
    await signIn(page, baseUrl, pathOf(service(), ""));
    for (const place of PLACES) {
      // An answer can be read while its page is there.
      await Promise.all(reading);
      await page.goto(addressOf(service(), place));
      await page.getByRole("heading", { level: 1 }).waitFor();
    }
    const tokens = (await Promise.all(reading)).map(({ accessToken }) => accessToken);
    expect([...origins].filter((origin) => origin !== baseUrl && origin !== apiUrl)).toEqual([]);
    const reach = await page.evaluate<{ keys: string[]; text: string }>(`({
      keys: [...Object.keys(localStorage), ...Object.keys(sessionStorage)],
      text: JSON.stringify([localStorage, sessionStorage, document.cookie, location.href, history.state, name])
        + document.documentElement.outerHTML,
    })`);
    expect(reach.keys.filter((key) => !["theme", "project", "person"].includes(key))).toEqual([]);
    expect(await page.evaluate("indexedDB.databases().then((all) => all.length)")).toBe(0);
    expect(await page.evaluate("caches.keys().then((all) => all.length)")).toBe(0);
    expect(tokens.length).toBeGreaterThan(PLACES.length);
    expect(tokens.filter((token) => reach.text.includes(token))).toEqual([]);
    const cookies = await context.cookies(`${baseUrl}/v2/session`);
    expect(cookies).toMatchObject([{ httpOnly: true, sameSite: "Strict", path: "/v2/session" }]);
    expect(reach.text).not.toContain(cookies[0]!.value);
    expect(await context.cookies(`${baseUrl}/v2/projects`)).toEqual([]);
    expect(complaints).toEqual([]);
  },
);

verifies(
  ["dashboard.security", "dashboard.session", "dashboard.sign-in"],
  "pages of one browser share the session: reloaded at once they stay, signed out one by one",
  async () => {
    const { baseUrl } = service().service;
    const { page, context } = await openPage(browser());
    const wanted = pathOf(service(), "/keys?from=a%20link#here");
    // A link to a page within, followed by somebody who is not signed in.
    await page.goto(baseUrl + wanted);
    await page.getByLabel("E-mail").fill(OWNER.email);
    await page.getByLabel("Password").fill("not the password");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("Password").fill(OWNER.password);
    await page.getByLabel("Password").press("Enter");
    await page.getByRole("heading", { name: "API keys" }).waitFor();
    expect(new URL(page.url()).pathname).toBe(pathOf(service(), "/keys"));

    const others = [await context.newPage(), await context.newPage()];
    for (let turn = 0; turn < 3; turn++) {
      await Promise.all([page, ...others].map((one) => one.goto(addressOf(service(), "/keys"))));
      await Promise.all([page, ...others].map(isSignedIn));
    }
    await page.getByRole("button", { name: "Sign out" }).click();
    for (const one of [page, ...others]) await one.getByLabel("Password").waitFor();
    await page.goto(addressOf(service(), "/keys"));
    await page.getByLabel("Password").waitFor();
  },
);

test("the way back after the sign-in never leads to another site", async () => {
  const { baseUrl } = service().service;
  const { page } = await openPage(browser());
  for (const to of [
    "//other.test/",
    "/\\other.test/",
    "/\t/other.test/",
    "https://other.test/",
    "javascript:alert(1)",
  ]) {
    await signIn(page, baseUrl, to);
    expect([to, new URL(page.url()).origin]).toEqual([to, baseUrl]);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Password").waitFor();
  }
});

verifies(
  "dashboard.security",
  "the pages of another site can neither use the cookie nor frame the dashboard",
  async () => {
    const { baseUrl } = service().service;
    const { page, context } = await open("/keys");
    await isSignedIn(page);
    const cookie = async (): Promise<string | undefined> =>
      (await context.cookies(`${baseUrl}/v2/session`))[0]?.value;
    const before = await cookie();
    const { port } = await otherSite(`
    <form id="form" method="post" enctype="text/plain" target="frame" action="${baseUrl}/v2/session">
      <input name='{"email":"${OWNER.email}","password":"${OWNER.password}","a":"' value='"}'>
    </form>
    <iframe name="frame"></iframe><iframe id="framed" src="${baseUrl}/"></iframe>`);
    // A port of the same host is the same site, so browsers send the cookie along; another name is not.
    for (const host of ["127.0.0.1", "other.test"]) {
      const other = await context.newPage();
      const statuses: [string, number][] = [];
      other.on("response", (response) => {
        const { origin, pathname } = new URL(response.url());
        if (origin === baseUrl && pathname.startsWith("/v2")) statuses.push([pathname, response.status()]);
      });
      await other.goto(`http://${host}:${port}/`);
      const read = await other.evaluate<string[]>(`Promise.all([
      fetch("${baseUrl}/v2/session/refresh", { method: "POST", credentials: "include", mode: "no-cors" }),
      fetch("${baseUrl}/v2/session/refresh", { method: "POST", credentials: "include" }),
      fetch("${baseUrl}/v2/session", { method: "DELETE", credentials: "include" }),
      fetch("${baseUrl}/v2/me", { credentials: "include" }),
    ].map((asked) => asked.then(({ type }) => type, () => "refused")))`);
      expect(read).toEqual(["opaque", "refused", "refused", "refused"]);
      const submitted = other.waitForEvent(
        "response",
        (response) => response.url() === `${baseUrl}/v2/session`,
      );
      await other.evaluate("document.querySelector('#form').submit()");
      expect((await submitted).status()).toBe(415);
      expect(
        statuses.filter(([pathname, status]) => pathname.startsWith("/v2/session") && status < 400),
      ).toEqual([]);
      const framed = other.frames().find((frame) => frame.parentFrame() && frame.name() !== "frame");
      expect(await framed?.evaluate("document.querySelector('#root')")).toBeNull();
      await other.close();
    }
    expect(await cookie()).toBe(before);
    await page.reload();
    await isSignedIn(page);
  },
);

test("on another machine without HTTPS the dashboard works too", async () => {
  const { baseUrl } = service().service;
  const { page, complaints } = await openPage(browser());
  const url = baseUrl.replace("127.0.0.1", "dashboard.test");
  await signIn(page, url, pathOf(service(), "/apps/hello"));
  expect(await page.evaluate("isSecureContext")).toBe(false);
  await page.reload();
  await isSignedIn(page);
  await page.getByRole("button", { name: "Copy address", exact: true }).click();
  await page.keyboard.press("Control+k");
  const field = page.getByRole("combobox", { name: "Page, app or run id", exact: true });
  await field.waitFor();
  await until("what was copied is pasted", async () => {
    await page.keyboard.press("Control+a");
    await page.keyboard.press("Control+v");
    return (await field.inputValue()).endsWith("/hello");
  });
  // Chromium says that it leaves out a header that means nothing here.
  expect(complaints.filter((text) => !text.includes("Cross-Origin-Opener-Policy"))).toEqual([]);
});

test("colours are there before the first script of the dashboard, and stay as they were chosen", async () => {
  const { page } = await open("", { colorScheme: "dark" });
  await isSignedIn(page);
  const ground = async (): Promise<string> =>
    await page.evaluate("getComputedStyle(document.body).backgroundColor");
  await page.route("**/assets/*.js", (route) => route.abort());
  await page.reload();
  expect(await ground()).toBe("rgb(12, 17, 18)");
  await page.unroute("**/assets/*.js");
  await page.reload();
  await page.getByRole("button", { name: "Use light colours", exact: true }).click();
  await page.route("**/assets/*.js", (route) => route.abort());
  await page.reload();
  expect(await ground()).toBe("rgb(247, 248, 248)");
});

test("an address that nothing has says so, with the way to the others", async () => {
  const { page, complaints } = await open("/none/at/all");
  await page.getByText("There is no such page").waitFor();
  await page.getByRole("link", { name: "Go to the overview" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  expect(complaints).toEqual([]);
});
