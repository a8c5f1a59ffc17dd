import { generateKeyPairSync } from "node:crypto";
import path from "node:path";
import { createLocalJWKSet, type JWTHeaderParameters, type JWTPayload, jwtVerify, SignJWT } from "jose";
import { describe, expect, test } from "vitest";
import { KeyRing, loadTokenKeys, newKey } from "../../../src/identity/key-ring.ts";
import { Seal, loadMasterKey } from "../../../src/kit/seal.ts";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { HandClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { IdentitySite, claimsOf } from "../../support/identity-site.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const REFUSED = [401, "Bearer"];

/** A site, a good token of it taken apart, and the key it was signed with. */
async function openSite() {
  const clock = new HandClock();
  const database = await databases.fresh("sqlite");
  const site = await IdentitySite.open(database, clock);
  const token = await site.account("admin");
  const seal = new Seal(loadMasterKey(path.join(database.dataDir, "master.key")));
  const [key] = await loadTokenKeys(site.store, seal, 0);
  if (!key) throw new Error("there is no key");
  const header: JWTHeaderParameters = { alg: "EdDSA", kid: key.id, typ: "JWT" };
  const claims: JWTPayload = claimsOf(token);
  const sign = (change: object, heading: object = {}, signer = key.privateKey) =>
    new SignJWT({ ...claims, ...change }).setProtectedHeader({ ...header, ...heading }).sign(signer);
  const status = async (shown: string) =>
    (await site.ask("GET", "service-accounts", { token: shown })).status;
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return { clock, site, database, seal, token, key, header, claims, sign, status, encode };
}

describe("on the management API", () => {
  test("a token with any wrong claim or header is 401; with none it is good", async () => {
    const { clock, claims, sign, status, encode, header, token } = await openSite();
    expect(await status(await sign({}))).toBe(200);
    const now = clock.nowMs / 1000;
    const other = generateKeyPairSync("ed25519");
    const forged: Record<string, string> = {
      expired: await sign({ exp: now - 1 }),
      "not valid yet": await sign({ nbf: now + 120 }),
      "issued in the future": await sign({ iat: now + 120 }),
      "without exp": await sign({ exp: undefined }),
      "negative exp": await sign({ exp: -1 }),
      "text exp": await sign({ exp: "9999999999" }),
      "other audience": await sign({ aud: "other" }),
      "other issuer": await sign({ iss: "other" }),
      "other type": await sign({}, { typ: "at+jwt" }),
      "other subject": await sign({ sub: "sa-other" }),
      "unknown jti": await sign({ jti: "other" }),
      "a session that is not there": await sign({ sid: "other" }),
      "a path for a kid": await sign({}, { kid: "../../dev/null" }),
      "SQL for a kid": await sign({}, { kid: "' or 1=1 --" }),
      "an address for a kid": await sign({}, { kid: "http://127.0.0.1/" }),
      "a long kid": await sign({}, { kid: "k".repeat(4000) }),
      "another key": await sign({}, {}, other.privateKey),
      "a key it brings": await sign({}, { jwk: other.publicKey.export({ format: "jwk" }) }, other.privateKey),
      "a jku": await sign({}, { jku: "http://127.0.0.1/keys" }, other.privateKey),
      "an x5u": await sign({}, { x5u: "http://127.0.0.1/x" }, other.privateKey),
      "too long": `${token}${"A".repeat(100_000)}`,
      "a kid that is a list": `${encode({ ...header, kid: [header.kid] })}.${encode(claims)}.${"A".repeat(86)}`,
    };
    for (const alg of ["none", "None", "HS256"]) {
      forged[`alg ${alg}`] = `${encode({ ...header, alg })}.${encode(claims)}.`;
    }
    for (const [what, shown] of Object.entries(forged)) {
      // Keys may be read once a second: one that is unknown is looked for at once.
      clock.advance(1_000);
      expect([what, await status(shown)]).toEqual([what, 401]);
    }
  });

  test("a token counts in the Authorization header alone, once, as Bearer in any case", async () => {
    const { site, token } = await openSite();
    const url = `/v2/projects/p-one/service-accounts`;
    const shown = async (headers: Record<string, string>, query = "") => {
      const answer = await site.ask("GET", url + query, { headers });
      return [answer.status, answer.headers["www-authenticate"]];
    };
    expect(await shown({ authorization: `bearer ${token}` })).toEqual([200, undefined]);
    expect(await shown({ authorization: `BEARER ${token}` })).toEqual([200, undefined]);
    for (const authorization of [
      `Basic ${token}`,
      token,
      `Bearer\t${token}`,
      "Bearer",
      `Bearer ${token} x`,
      "",
    ]) {
      expect([authorization, await shown({ authorization })]).toEqual([authorization, REFUSED]);
    }
    expect(await shown({}, `?token=${token}&access_token=${token}`)).toEqual(REFUSED);
    expect(await shown({ cookie: `token=${token}; millrace_refresh=${token}` })).toEqual(REFUSED);
  });

  test("a person's token has no more rights by naming a project", async () => {
    const { site, sign, status } = await openSite();
    const { json } = await site.setUp();
    const { sub, sid, jti } = claimsOf(json.accessToken);
    await site.store.projects.insert({ id: "p-later", name: "later", createdAt: 1 });
    const token = await sign({ sub, sid, jti, project_id: "p-later", role: "admin" });
    expect(await status(token)).toBe(200);
    expect((await site.ask("GET", "/v2/projects/p-later/members", { token })).status).toBe(403);
    // The session of one does not speak for another.
    expect(await status(await sign({ sub: "u-other", sid, jti }))).toBe(401);
  });

  test("a forged token of a known account is refused as one of an unknown account: nobody looks for either", async () => {
    const { site, sign } = await openSite();
    const ask = async (token: string) => await site.ask("GET", "service-accounts", { token });
    const { privateKey } = generateKeyPairSync("ed25519");
    const known = await sign({}, {}, privateKey);
    const unknown = await sign({ sub: "sa-other", jti: "other" }, {}, privateKey);
    const texts: string[] = [];
    for (const token of [known, unknown]) {
      const { json, work } = await ask(token);
      texts.push(JSON.stringify({ ...json, request_id: "" }));
      expect(work).toEqual([]);
    }
    expect(texts[0]).toBe(texts[1]);
    // One that is signed is looked for.
    const { status, work } = await ask(await sign({ jti: "other" }));
    expect([status, work.length > 0]).toEqual([401, true]);
  });
});

describe.each(triedKinds("postgres"))("signing keys on %s", (kind) => {
  verifies(
    "token.jwks",
    "the public keys verify tokens for anybody, before and after a rotation",
    async () => {
      const site = await IdentitySite.open(await databases.fresh(kind));
      const before = await site.account();
      const read = async () => (await site.ask("GET", "/.well-known/jwks.json")).json;
      expect((await read()).keys).toHaveLength(1);
      await site.keys.rotate();
      const after = await site.account();
      const set = await read();
      expect(set.keys).toHaveLength(2);
      for (const key of set.keys) {
        expect(Object.keys(key).toSorted()).toEqual(["alg", "crv", "kid", "kty", "use", "x"]);
      }
      for (const token of [before, after]) {
        const currentDate = new Date(site.clock.now());
        const { payload } = await jwtVerify(token, createLocalJWKSet(set), { currentDate });
        expect(payload["project_id"]).toBe("p-one");
      }
      const kid = (token: string) =>
        JSON.parse(Buffer.from(token.split(".")[0] ?? "", "base64url").toString()) as { kid: string };
      expect([kid(before).kid, kid(after).kid]).toEqual([set.keys[1].kid, set.keys[0].kid]);
    },
  );

  test("a token of a key made elsewhere is good at once, and one of a key twice replaced is not", async () => {
    const database = await databases.fresh(kind);
    const clock = new HandClock();
    const here = await IdentitySite.open(database, clock);
    const there = kind === "postgres" ? await IdentitySite.open(database, clock) : here;
    const status = async (token: string) => (await there.ask("GET", "service-accounts", { token })).status;
    const first = await here.account();
    expect(await status(first)).toBe(200);
    // At the moment of the last reading, as far as the clock tells.
    await here.keys.rotate();
    const second = await here.account();
    expect(await status(first)).toBe(200);
    const asking = status(second);
    // Elsewhere it is found when the keys are read again, a second after the last time.
    if (there !== here) await until("it waits for that", () => clock.pending > 0);
    clock.advance(1_000);
    expect(await asking).toBe(200);
    clock.nowMs += 1_000;
    await here.keys.rotate();
    const third = await here.account();
    expect(await status(third)).toBe(200);
    // No older judgement counts after five seconds.
    clock.nowMs += 5_001;
    expect([await status(first), await status(second)]).toEqual([401, 200]);
  });

  test("unknown keys make the database be asked once a second at most", async () => {
    const site = await IdentitySite.open(await databases.fresh(kind));
    const clock = site.clock as HandClock;
    let reads = 0;
    const listActive = async () => {
      reads += 1;
      return await site.store.signingKeys.listActive();
    };
    const seal = new Seal(Buffer.alloc(32));
    const counting = { ...site.store, signingKeys: { ...site.store.signingKeys, listActive } };
    await site.store.signingKeys.rotate(newKey(seal, clock.nowMs));
    await site.store.signingKeys.rotate(newKey(seal, clock.nowMs));
    const ring = await KeyRing.open(counting, seal, clock);
    const known = ring.signingKey.id;
    expect(reads).toBe(1);
    const unknown = () => Promise.all(Array.from({ length: 20 }, (_, i) => ring.publicKey(`unknown-${i}`)));
    const first = unknown();
    clock.advance(999);
    expect([reads, clock.pending]).toEqual([1, 1]);
    clock.advance(1);
    expect((await first).every((key) => key === null)).toBe(true);
    expect(reads).toBe(2);
    clock.nowMs += 1_000;
    await unknown();
    expect(reads).toBe(3);
    expect(await ring.publicKey(known)).not.toBeNull();
    for (const id of ["../x", "", "k".repeat(65), undefined]) {
      clock.nowMs += 1_000;
      expect(await ring.publicKey(id)).toBeNull();
    }
    expect(reads).toBe(3);
    clock.nowMs += 60_000;
    await ring.publicKey(known);
    expect(reads).toBe(4);
  });
});
