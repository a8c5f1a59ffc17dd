import { describe, expect, test } from "vitest";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { HandClock } from "../../support/clocks.ts";
import { IdentitySite, claimsOf, cookieOf } from "../../support/identity-site.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const FORM = { "content-type": "application/x-www-form-urlencoded" };
const PENDING = '{"error":"authorization_pending"}';

async function openSite(kind: "sqlite" | "postgres" = "sqlite") {
  const clock = new HandClock();
  const site = await IdentitySite.open(await databases.fresh(kind), clock);
  const person = await site.setUp();
  const token: string = person.json.accessToken;
  const askFor = async (ip?: string) =>
    (await site.ask("POST", "/device-authorization", ip ? { ip } : {})).json.deviceAuthResponsePayload;
  const poll = (deviceCode: string) => site.ask("POST", "/token", { body: { device_code: deviceCode } });
  const approve = async (userCode: string, as: string | null = token) =>
    (await site.ask("POST", "/device/approve", { token: as, body: { user_code: userCode } })).status;
  const refresh = (refreshToken: string) =>
    site.ask("POST", "/token", {
      headers: FORM,
      body: new URLSearchParams({
        grant_type: "refresh_token",
        client_id: "cli",
        refresh_token: refreshToken,
      }).toString(),
    });
  return { clock, site, person, token, askFor, poll, approve, refresh };
}

describe.each(triedKinds("postgres"))("device sign-in on %s", (kind) => {
  verifies(
    ["people.device", "people.device.pending", "people.device.done", "people.device.refresh"],
    "a device asks, waits, is approved by a person, gets its tokens once, and refreshes them",
    async () => {
      const { clock, site, person, askFor, poll, approve, refresh } = await openSite(kind);
      const asked = await site.ask("POST", "/device-authorization");
      expect(asked).toMatchObject({ status: 200, headers: { "cache-control": "no-store" } });
      const { device_code: deviceCode, user_code: userCode, ...rest } = asked.json.deviceAuthResponsePayload;
      expect(userCode).toMatch(/^[B-DF-HJ-NP-TV-Z]{4}-[B-DF-HJ-NP-TV-Z]{4}$/);
      expect(rest).toEqual({
        verification_uri: "http://localhost:80/device",
        verification_uri_complete: `http://localhost:80/device?user_code=${userCode}`,
        expires_in: 600,
        interval: 5,
      });
      expect(await poll(deviceCode)).toMatchObject({ status: 400, text: PENDING });
      const other = await askFor();
      expect(await approve(` ${userCode.toLowerCase().replace("-", " ")}`)).toBe(200);
      const done = await poll(deviceCode);
      expect(done.status).toBe(200);
      expect(Object.keys(done.json)).toEqual(["accessToken", "refreshToken"]);
      expect(claimsOf(done.json.accessToken)["sub"]).toBe(person.json.personId);
      expect(await poll(deviceCode)).toMatchObject({ status: 400, text: '{"error":"expired_token"}' });
      expect(await poll(other.device_code)).toMatchObject({ status: 400, text: PENDING });

      clock.nowMs += 900_000;
      for (let use = 0; use < 2; use++) {
        const refreshed = await refresh(done.json.refreshToken);
        expect([refreshed.status, Object.keys(refreshed.json)]).toEqual([200, ["access_token"]]);
        const { status, json } = await site.ask("GET", "/v2/me", { token: refreshed.json.access_token });
        expect([status, json.id]).toEqual([200, person.json.personId]);
      }
    },
  );

  test("a code ends after ten minutes, approved or not, and cannot be approved twice", async () => {
    const { clock, askFor, poll, approve } = await openSite(kind);
    const [first, second, third] = [await askFor(), await askFor(), await askFor()];
    expect(await approve(first.user_code)).toBe(200);
    expect(await approve(first.user_code)).toBe(404);
    expect(await approve("BCDF-GHJK")).toBe(404);
    clock.nowMs += 599_999;
    expect((await poll(second.device_code)).text).toBe(PENDING);
    clock.nowMs += 1;
    expect(await poll(first.device_code)).toMatchObject({ status: 400, json: { error: "expired_token" } });
    expect(await poll(third.device_code)).toMatchObject({ status: 400, json: { error: "expired_token" } });
    expect((await poll("nonsense")).json).toEqual({ error: "expired_token" });
  });

  test("of many polls at once one gets the tokens", async () => {
    const { askFor, poll, approve } = await openSite(kind);
    const { device_code: deviceCode, user_code: userCode } = await askFor();
    await approve(userCode);
    const answers = await Promise.all(Array.from({ length: 6 }, () => poll(deviceCode)));
    const count = (wanted: number) => answers.filter(({ status }) => status === wanted).length;
    expect([count(200), count(400)]).toEqual([1, 5]);
  });

  test("a device is signed out by its person; its refresh token is then no good", async () => {
    const { site, token, askFor, poll, approve, refresh } = await openSite(kind);
    const { device_code: deviceCode, user_code: userCode } = await askFor();
    await approve(userCode);
    const { refreshToken } = (await poll(deviceCode)).json;
    const { json: sessions } = await site.ask("GET", "/v2/me/sessions", { token });
    const device = sessions.find((session: { kind: string }) => session.kind === "device");
    expect((await refresh(refreshToken)).status).toBe(200);
    await site.ask("DELETE", `/v2/me/sessions/${device.id}`, { token });
    expect(await refresh(refreshToken)).toMatchObject({ status: 400, text: '{"error":"invalid_grant"}' });
  });
});

test("only a person approves, and a browser's token is no device's", async () => {
  const { site, person, askFor, poll, approve, refresh } = await openSite();
  const { device_code: deviceCode, user_code: userCode } = await askFor();
  expect(await approve(userCode, null)).toBe(401);
  expect(await approve(userCode, await site.account("admin"))).toBe(403);
  expect((await poll(deviceCode)).text).toBe(PENDING);
  const cookie = cookieOf(person);
  expect((await refresh(cookie.split("=")[1] ?? "")).json).toEqual({ error: "invalid_grant" });
  const headers = { cookie };
  expect((await site.ask("POST", "/v2/session/refresh", { headers })).status).toBe(200);
});

test("what is neither a code nor a refresh token is 400, and forms are taken nowhere else", async () => {
  const { site, token } = await openSite();
  for (const body of [
    {},
    { device_code: "" },
    { device_code: 7 },
    { grant_type: "password", refresh_token: "x" },
  ]) {
    expect((await site.ask("POST", "/token", { body })).status).toBe(400);
  }
  expect((await site.ask("POST", "/token")).status).toBe(400);
  const body = "user_code=BCDF-GHJK";
  expect((await site.ask("POST", "/device/approve", { token, headers: FORM, body })).status).toBe(415);
});

test("codes are not given out without end to one address, nor guessed", async () => {
  const { clock, site, askFor, approve } = await openSite();
  const ask = async (ip: string) => (await site.ask("POST", "/device-authorization", { ip })).status;
  const statuses = [];
  for (let i = 0; i < 11; i++) statuses.push(await ask("2001:db8::1"));
  expect(statuses).toEqual([...Array.from({ length: 10 }, () => 200), 429]);
  expect(await ask("2001:db8::2")).toBe(429);
  expect(await ask("2001:db8:1::1")).toBe(200);
  const guesses = [];
  for (let i = 0; i < 11; i++) guesses.push(await approve("BCDF-GHJK"));
  expect(guesses).toEqual([...Array.from({ length: 10 }, () => 404), 429]);
  clock.nowMs += 6_000;
  expect(await approve((await askFor()).user_code)).toBe(200);
});
