import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { HandClock } from "../../support/clocks.ts";
import { type Asked, cookieOf, IdentitySite, type SiteOptions } from "../../support/identity-site.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const HTTPS = { publicBaseUrl: "https://board.example.com" };

async function openSite(options: SiteOptions = {}) {
  const site = await IdentitySite.open(await databases.fresh("sqlite"), new HandClock(), options);
  const refresh = (cookie: string, headers = {}): Promise<Asked> =>
    site.ask("POST", "/v2/session/refresh", { headers: { cookie, ...headers } });
  return { site, refresh };
}

/** The cookies that an answer sets, each as its parts. */
function setBy({ headers }: Asked): string[][] {
  const cookies = [headers["set-cookie"] ?? []].flat() as string[];
  return cookies.map((cookie) => cookie.split("; "));
}

verifies("cookies.two", "of two refresh cookies none counts, and the browser forgets both", async () => {
  const { site, refresh } = await openSite();
  const own = cookieOf(await site.setUp());
  const theirs = cookieOf(
    await site.signUp(
      await site.invite(await site.account(), { email: "eve@example.com" }),
      "eve@example.com",
    ),
  );
  for (const cookie of [
    `${theirs}; ${own}`,
    `${own}; ${theirs}`,
    `${own}; ${own}`,
    `a=1;${theirs};b=2;${own}`,
    `${own}; millrace_refresh=`,
    `${own}; millrace_refresh`,
    `millrace_refresh=,; ${own}`,
  ]) {
    const refused = await refresh(cookie, { host: "board.example.com:4100" });
    expect([cookie, refused.status, refused.json.code]).toEqual([cookie, 401, "unauthorized"]);
    expect(refused.json.message).toContain("sign in again");
    const forgotten = setBy(refused);
    expect(forgotten.every(([pair, , age]) => pair === "millrace_refresh=" && age === "Max-Age=0")).toBe(
      true,
    );
    const places = forgotten.map((parts) => [parts[1], parts.find((part) => part.startsWith("Domain="))]);
    for (const path of ["/", "/v2", "/v2/session", "/v2/session/refresh"])
      for (const domain of [undefined, "Domain=board.example.com", "Domain=example.com"])
        expect(places).toContainEqual([`Path=${path}`, domain]);
    const out = await site.ask("DELETE", "/v2/session", { headers: { cookie } });
    expect([cookie, out.status]).toEqual([cookie, 401]);
  }
  // Neither was used: both sessions go on.
  expect((await refresh(own)).status).toBe(200);
  expect((await refresh(theirs)).status).toBe(200);
});

verifies("cookies.prefix", "under HTTPS the cookie has a prefix that no other host can set", async () => {
  const { site, refresh } = await openSite(HTTPS);
  const signedIn = await site.setUp();
  const [[pair = "", ...attributes] = []] = setBy(signedIn);
  expect(pair).toMatch(/^__Host-millrace_refresh=mrr_/);
  expect(attributes).toEqual(["Path=/", "Max-Age=2592000", "HttpOnly", "SameSite=Strict", "Secure"]);
  // A cookie without the prefix is somebody else's, and neither counts nor stands in the way.
  const bare = pair.replace("__Host-", "");
  expect((await refresh(bare)).status).toBe(401);
  const renewed = await refresh(`${bare}; ${pair}; millrace_refresh=x`);
  expect(renewed.status).toBe(200);
  const next = cookieOf(renewed);
  expect(next).toMatch(/^__Host-millrace_refresh=mrr_/);
  const refused = await refresh(`${next}; __Host-millrace_refresh=x`);
  expect(refused.status).toBe(401);
  // A partitioned cookie of that name is another one to browsers.
  expect(setBy(refused).map((parts) => [parts[0], parts[1], parts.at(-1)])).toEqual([
    ["__Host-millrace_refresh=", "Path=/", "Secure"],
    ["__Host-millrace_refresh=", "Path=/", "Partitioned"],
  ]);
  const out = await site.ask("DELETE", "/v2/session", { headers: { cookie: next } });
  expect(setBy(out)).toEqual([
    ["__Host-millrace_refresh=", "Path=/", "Max-Age=0", "HttpOnly", "SameSite=Strict", "Secure"],
  ]);
  expect((await refresh(next)).status).toBe(401);
});

verifies("cookies.prefix", "a name with other blanks than space and tab is another cookie's", async () => {
  const { site, refresh } = await openSite(HTTPS);
  const pair = cookieOf(await site.setUp());
  const value = pair.slice(pair.indexOf("=") + 1);
  // Browsers do not see the prefix in such a name, so another host may have set the cookie.
  for (const name of ["\u00a0__Host-millrace_refresh", "__Host-millrace_refresh\u00a0"])
    expect([name, (await refresh(`${name}=${value}`)).status]).toEqual([name, 401]);
  const renewed = await refresh(`\u00a0__Host-millrace_refresh=x; \t __Host-millrace_refresh \t= ${value}`);
  expect(renewed.status).toBe(200);
});
