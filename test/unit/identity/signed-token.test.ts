import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { jwtVerify } from "jose";
import { expect } from "vitest";
import type { KeyRing } from "../../../src/identity/key-ring.ts";
import { TokenSigner } from "../../../src/identity/signed-token.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

const HERE = "instance";
const KEY_ID = "k-one";
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";

const clock = new HandClock();
const now = Math.floor(clock.now() / 1000);
const own = generateKeyPairSync("ed25519");
const other = generateKeyPairSync("ed25519");
const publicKey = async (id: string | undefined) =>
  await Promise.resolve(id === KEY_ID ? own.publicKey : null);
const ring = { signingKey: { id: KEY_ID, ...own }, publicKey } as unknown as KeyRing;
const signer = new TokenSigner(ring, HERE, clock);

const HEADER = { alg: "EdDSA", kid: KEY_ID, typ: "JWT" };
const CLAIMS = { iss: HERE, aud: HERE, sub: "sa-one", jti: "j", iat: now, exp: now + 1_000 };

const encode = (value: unknown): string =>
  Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");

function signed(head: string, body: string, key: KeyObject = own.privateKey): string {
  return `${head}.${body}.${sign(null, Buffer.from(`${head}.${body}`), key).toString("base64url")}`;
}

const GOOD = signed(encode(HEADER), encode(CLAIMS));

/** Whether a library that is not ours takes the token, asked for the same; when it was made it does not look at. */
async function isGoodElsewhere(token: string): Promise<boolean> {
  const terms = { algorithms: ["EdDSA"], typ: "JWT", issuer: HERE, audience: HERE, clockTolerance: 60 };
  const asked = { ...terms, requiredClaims: ["exp", "jti", "sub"], currentDate: new Date(clock.now()) };
  const findKey = ({ kid }: { kid?: string }): KeyObject => {
    if (kid !== KEY_ID) throw new Error("no such key");
    return own.publicKey;
  };
  return await jwtVerify(token, findKey, asked).then(
    ({ payload: { iat = 0 } }) => iat <= now + 60,
    () => false,
  );
}

/** Tokens signed with the right key whose head and claims have any of these values, and all that is not quite a token. */
function candidates(): string[] {
  const times = [-1, 0, now, now - 61, now - 60, now - 59, now + 59, now + 60, now + 61, String(now + 1_000)];
  const texts = ["", "x", HERE, "JWT", "jwt", "application/jwt", "at+jwt", "Ed25519", "HS256", "none"];
  const values: unknown[] = [undefined, null, true, {}, [], [HERE], ["x", HERE], ["exp"], ...times, ...texts];
  const head = encode(HEADER);
  const body = encode(CLAIMS);
  const found = [GOOD, "", "..", head, `${head}.${body}`, `${head}.${body}.`, `${GOOD}.x`];
  found.push(signed(head, body, other.privateKey), `${head}.${body}.${"A".repeat(86)}`);
  found.push(signed(encode([HEADER]), body), signed(head, encode([CLAIMS])), signed(head, encode("null")));
  found.push(signed(head, encode(`{"__proto__":${JSON.stringify(CLAIMS)}}`)));
  found.push(signed(head, Buffer.from(`${JSON.stringify(CLAIMS)}\u{ff}`, "latin1").toString("base64url")));
  for (const value of values) {
    for (const name of ["alg", "kid", "typ", "crit", "jwk"])
      found.push(signed(encode({ ...HEADER, [name]: value }), body));
    for (const name of ["iss", "aud", "exp", "nbf", "sid"])
      found.push(signed(head, encode({ ...CLAIMS, [name]: value })));
  }
  for (const more of ["A", "AA", "AAA"]) found.push(signed(head + more, body), signed(head, body + more));
  // But the last letter, of which four bits mean nothing: elsewhere it has sixteen spellings.
  for (let at = 0; at < GOOD.length - 1; at++) {
    const letter = LETTERS[(at * 7) % LETTERS.length] ?? "";
    const flip = (text: string): string => text.slice(0, at) + letter + text.slice(at + 1);
    found.push(
      flip(GOOD),
      signed(flip(head).slice(0, head.length), body),
      signed(head, flip(body).slice(0, body.length)),
    );
  }
  return found;
}

verifies("token.jwt", "a token counts here if and only if it does by another library's rules", async () => {
  const verdicts = { good: 0, bad: 0 };
  for (const token of candidates()) {
    const isGood = (await signer.read(token)) !== null;
    expect([token, isGood]).toEqual([token, await isGoodElsewhere(token)]);
    verdicts[isGood ? "good" : "bad"] += 1;
  }
  expect(verdicts.good).toBeGreaterThan(20);
  expect(verdicts.bad).toBeGreaterThan(500);
});

verifies(
  "token.jwt",
  "a claim of another kind, or an extension, voids a token; one made here is good",
  async () => {
    for (const wrong of [{ sub: 1 }, { sub: ["sa-one"] }, { jti: {} }, { iat: "x" }, { iat: now + 61 }])
      expect(await signer.read(signed(encode(HEADER), encode({ ...CLAIMS, ...wrong })))).toBeNull();
    const extended = { ...HEADER, crit: ["b64"], b64: true };
    expect(await signer.read(signed(encode(extended), encode(CLAIMS)))).toBeNull();
    const { token, jti } = signer.sign("u-one", clock.now() + 1, { sid: "s" });
    expect((await signer.read(token))?.claims).toEqual({ sub: "u-one", jti, exp: now + 1, sid: "s" });
    expect(await isGoodElsewhere(token)).toBe(true);
  },
);

verifies(
  "token.remembered",
  "what was read before counts only with the same key, and in its time",
  async () => {
    const reading = await signer.read(GOOD);
    expect(await signer.read(GOOD, reading)).toBe(reading);
    let key: KeyObject | null = other.publicKey;
    const later = new HandClock();
    const keys = { publicKey: async () => await Promise.resolve(key) } as unknown as KeyRing;
    const elsewhere = new TokenSigner(keys, HERE, later);
    expect(await elsewhere.read(GOOD, reading)).toBeNull();
    key = null;
    expect(await elsewhere.read(GOOD, reading)).toBeNull();
    key = own.publicKey;
    expect(await elsewhere.read(GOOD, reading)).toBe(reading);
    later.nowMs = (CLAIMS.exp + 60) * 1_000;
    expect(await elsewhere.read(GOOD, reading)).toBeNull();
  },
);
