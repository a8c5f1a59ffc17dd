import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { pathOf, sharedDashboard } from "../../support/dashboard-site.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const HELLO = { main: "def run(name='x'):\n    return f'Hello, {name}'\n" };

const clock = new SkippingClock();
/** What the answer to a renewed session waits for, once the renewal is written. */
let held = async (): Promise<void> => {};

const { service, open } = sharedDashboard(
  { hello: HELLO },
  {},
  {
    clock,
    aroundStore: (store) => ({
      ...store,
      sessions: {
        ...store.sessions,
        refresh: async (input) => {
          const refreshed = await store.sessions.refresh(input);
          await held();
          return refreshed;
        },
      },
    }),
  },
);

const isSignedIn = async (page: Page): Promise<void> => {
  await page.getByRole("navigation", { name: "Project" }).waitFor();
};

verifies(
  "dashboard.security",
  "the page allows nothing inline, nothing from elsewhere, and no frame",
  async () => {
    const { baseUrl, apiUrl } = service().service;
    for (const place of [
      "/",
      "/sign-in",
      "/setup",
      "/password",
      "/device",
      "/docs",
      pathOf(service(), "/runs?status=failure"),
    ]) {
      const response = await fetch(baseUrl + place);
      expect([place, response.status, response.headers.get("cache-control")]).toEqual([
        place,
        200,
        "no-cache",
      ]);
      const policy = response.headers.get("content-security-policy") ?? "";
      expect(policy.split("; ")).toEqual([
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        `connect-src 'self' ${[apiUrl, ...[baseUrl, apiUrl].map((url) => url.replace("http", "ws"))].join(" ")}`,
        "form-action 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
      ]);
      expect(Object.fromEntries(response.headers)).toMatchObject({
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
      });
      const html = await response.text();
      expect(
        html.match(/<script(?![^>]* src="\/)|<style|\son\w+=|\sstyle=|(?:src|href)="(?!\/[^/])/g),
      ).toBeNull();
    }
  },
);

test("files are named by their content and kept for ever, packed as the browser likes; others do not exist", async () => {
  const { baseUrl } = service().service;
  const html = await (await fetch(baseUrl)).text();
  const script = /src="(\/assets\/[^"]+\.js)"/.exec(html)?.[1] ?? "";
  const asked = async (headers: Record<string, string>, url = script): Promise<Response> =>
    await fetch(baseUrl + url, { headers });
  const packed = await asked({ "accept-encoding": "gzip, br" });
  expect(Object.fromEntries(packed.headers)).toMatchObject({
    "content-type": "text/javascript; charset=utf-8",
    "cache-control": "public, max-age=31536000, immutable",
    "content-encoding": "br",
    vary: "Accept-Encoding",
  });
  const plain = await asked({ "accept-encoding": "br;q=0, identity" });
  expect(plain.headers.get("content-encoding")).toBeNull();
  expect(await plain.text()).toBe(await packed.text());
  expect((await asked({ "if-none-match": packed.headers.get("etag") ?? "" })).status).toBe(304);
  expect((await asked({}, "/theme.js")).headers.get("cache-control")).toBe("no-cache");
  for (const url of [
    "/assets/",
    "/assets/none.js",
    "/assets/..%2f..%2fpackage.json",
    "/index.html",
    "/none",
  ]) {
    expect([url, (await asked({}, url)).status]).toEqual([url, 404]);
  }
});

verifies(
  "dashboard.session",
  "a page that is reloaded while it renews its session stays signed in",
  async () => {
    const { page, context } = await open("/keys");
    await isSignedIn(page);
    const cookie = async (): Promise<string | undefined> =>
      (await context.cookies(`${service().service.baseUrl}/v2/session`))[0]?.value;
    const [before, written, answered] = [
      await cookie(),
      Promise.withResolvers<void>(),
      Promise.withResolvers<void>(),
    ];
    held = async () => {
      held = async () => {};
      written.resolve();
      await answered.promise;
    };
    await page.reload();
    await written.promise;
    // The page that asked is gone before the answer with the next cookie.
    await page.reload();
    await isSignedIn(page);
    answered.resolve();
    await until("the browser has the next cookie", async () => (await cookie()) !== before);
    // Later than two renewals can cross: who still used the old one would look like a thief.
    clock.skip(60_000);
    await page.reload();
    await isSignedIn(page);
  },
);
