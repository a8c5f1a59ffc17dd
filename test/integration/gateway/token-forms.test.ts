import { createHash, createPublicKey, type JsonWebKey } from "node:crypto";
import path from "node:path";
import { generateKeyPair, type JWTHeaderParameters, type JWTPayload, SignJWT } from "jose";
import { describe, expect, test } from "vitest";
import { loadTokenKeys, type TokenKey } from "../../../src/identity/key-ring.ts";
import { loadMasterKey, Seal } from "../../../src/kit/seal.ts";
import { RawConnection, rawRequest } from "../../support/raw-http.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";

const service = sharedService({
  app: { main: "def run():\n    return 1\n" },
  open: { main: "def run():\n    return 1\n", toml: "[deployment]\ndisable_auth = true\n" },
});

type Parts = { readonly header: JWTHeaderParameters; readonly claims: JWTPayload; readonly key: TokenKey };

/** The owner's token taken apart, with the installation's own key: a forger with all but the right content. */
async function takeApart(): Promise<Parts> {
  const { owner, store } = service().service;
  const [header, claims] = owner.token.split(".").slice(0, 2).map(decode);
  const masterKey = loadMasterKey(path.join(service().settings.dataDir, "master.key"));
  const [key] = await loadTokenKeys(store, new Seal(masterKey), 0);
  if (!key) throw new Error("the installation has no key");
  return { header: header as JWTHeaderParameters, claims: claims as JWTPayload, key };
}

function decode(part: string): unknown {
  return JSON.parse(Buffer.from(part, "base64url").toString());
}

function encode(value: unknown): string {
  return Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
}

async function sign({ header, claims, key }: Parts): Promise<string> {
  return await new SignJWT(claims).setProtectedHeader(header).sign(key.privateKey);
}

/** The status that a call with the token gets; a 401 without its challenge and code is none. */
async function status(token: string | null): Promise<number> {
  const { status, headers, json } = await service().call("app", {}, { token });
  const isWhole = headers.get("www-authenticate") === "Bearer" && json.code === "unauthorized";
  if (status === 401 && !isWhole) throw new Error(`a 401 without challenge or code: ${JSON.stringify(json)}`);
  return status;
}

verifies("token.jwt", "a token is a JWT with the contract's claims, signed with EdDSA", async () => {
  const { header, claims } = await takeApart();
  expect(header).toEqual({ alg: "EdDSA", kid: expect.any(String) as string, typ: "JWT" });
  expect(Object.keys(claims).toSorted()).toEqual(
    ["iss", "aud", "sub", "project_id", "role", "jti", "iat", "exp"].toSorted(),
  );
  expect(claims).toMatchObject({ project_id: service().service.owner.projectId, role: "admin" });
  expect(claims.iss).toBe(claims.aud);
});

describe("a token that was changed", () => {
  test("and changed back, and signed again with the same key, is good: so each change below is what voids it", async () => {
    expect(await status(await sign(await takeApart()))).toBe(200);
  });

  const CLAIMS: Record<string, (claims: JWTPayload) => object> = {
    "is past its exp": ({ iat }) => ({ exp: Number(iat) }),
    "has no exp": () => ({ exp: undefined }),
    "has a text for exp": ({ exp }) => ({ exp: String(exp) }),
    "has a negative exp": () => ({ exp: -1 }),
    "is not valid yet": ({ iat }) => ({ nbf: Number(iat) + 3600 }),
    "has another aud": () => ({ aud: "another" }),
    "has no aud": () => ({ aud: undefined }),
    "has another iss": () => ({ iss: "another" }),
    "has no iss": () => ({ iss: undefined }),
    "has another sub": () => ({ sub: "sa-another" }),
    "has no sub": () => ({ sub: undefined }),
    "has an unknown jti": () => ({ jti: "another" }),
    "has no jti": () => ({ jti: undefined }),
  };
  for (const [title, change] of Object.entries(CLAIMS)) {
    verifies("errors.401.bad", `is 401 when it ${title}`, async () => {
      const parts = await takeApart();
      expect(
        await status(await sign({ ...parts, claims: { ...parts.claims, ...change(parts.claims) } })),
      ).toBe(401);
    });
  }

  const HEADERS: Record<string, object> = {
    "has an unknown kid": { kid: "another" },
    "has a path for a kid": { kid: "../../../../dev/null" },
    "has SQL for a kid": { kid: "x' OR '1'='1" },
    "has no kid": { kid: undefined },
    "has another typ": { typ: "secevent+jwt" },
  };
  for (const [title, change] of Object.entries(HEADERS)) {
    verifies("errors.401.bad", `is 401 when it ${title}`, async () => {
      const parts = await takeApart();
      const header = { ...parts.header, ...change };
      expect(await status(await sign({ ...parts, header }))).toBe(401);
    });
  }

  verifies("errors.401.bad", "is 401 without a signature, whatever alg it names", async () => {
    const { header, claims } = await takeApart();
    for (const alg of ["none", "None", "NONE", "nOnE", "EdDSA", "", undefined]) {
      const unsigned = `${encode({ ...header, alg })}.${encode(claims)}.`;
      expect([alg, await status(unsigned)]).toEqual([alg, 401]);
      expect([alg, await status(unsigned.slice(0, -1))]).toEqual([alg, 401]);
    }
  });

  verifies("errors.401.bad", "is 401 when signed by HMAC with the public key as the secret", async () => {
    const { header, claims, key } = await takeApart();
    const [stored] = await service().service.store.signingKeys.listActive();
    const jwk = JSON.parse(stored?.publicJwk ?? "") as JsonWebKey;
    const publicKey = createPublicKey({ key: jwk, format: "jwk" });
    for (const secret of [
      Buffer.from(String(jwk["x"]), "base64url"),
      Buffer.from(stored?.publicJwk ?? ""),
      Buffer.from(publicKey.export({ format: "pem", type: "spki" })),
      publicKey.export({ format: "der", type: "spki" }),
    ]) {
      const forged = new SignJWT(claims).setProtectedHeader({ ...header, alg: "HS256", kid: key.id });
      expect(await status(await forged.sign(secret))).toBe(401);
    }
  });

  verifies("errors.401.bad", "is 401 when signed by another key, even one it brings along", async () => {
    const { header, claims } = await takeApart();
    const { privateKey, publicKey } = await generateKeyPair("EdDSA", { extractable: true });
    const jwk = (await crypto.subtle.exportKey("jwk", publicKey)) as JsonWebKey;
    for (const extra of [{}, { jwk }, { jku: "http://127.0.0.1:1/keys" }, { x5u: "http://127.0.0.1:1/x" }]) {
      const forged = new SignJWT(claims).setProtectedHeader({ ...header, ...extra });
      expect(await status(await forged.sign(privateKey))).toBe(401);
    }
  });

  verifies(
    "errors.401.bad",
    "is 401 when a critical extension is not known, or its parts are not right",
    async () => {
      const { header, claims } = await takeApart();
      const [head = "", body = "", signature = ""] = service().service.owner.token.split(".");
      const last = signature.at(-1) ?? "";
      const forms = [
        `${encode({ ...header, crit: ["x"], x: 1 })}.${body}.${signature}`,
        `${head}.${encode({ ...claims, role: "run" })}.${signature}`,
        `${head}.${encode(JSON.stringify(claims).replace("{", '{"sub":"sa-x",'))}.${signature}`,
        `${head}.${body}.${Buffer.alloc(64).toString("base64url")}`,
        `${head}.${body}.${signature.slice(0, -4)}`,
        `${head}.${body}.${signature.slice(0, -1)}${last === "A" ? "Q" : "A"}`,
        // The same signature in other letters: four bits of the last one mean nothing.
        `${head}.${body}.${signature.slice(0, -1)}${String.fromCharCode(last.charCodeAt(0) + 1)}`,
        `${head}.${body}.${signature}==`,
        `${head}.${body}.${signature}.x`,
        `${head}.x.${body}.${signature}.x`,
        `${head}.${body}`,
        head,
        `${head}.${body}.${signature}AAAA`,
        "x".repeat(10_000),
      ];
      for (const form of forms) expect([form, await status(form)]).toEqual([form, 401]);
    },
  );
});

describe("the Authorization header", () => {
  /** Sends the lines as they are and gives the statuses. */
  async function ask(...lines: string[]): Promise<number> {
    const { apiUrl, owner } = service().service;
    await using connection = await RawConnection.open(apiUrl);
    connection.send(rawRequest(`POST /v4/${owner.projectId}/app/run HTTP/1.1`, ["Host: x", ...lines]));
    return (await connection.answer()).status;
  }

  verifies(
    "token.bearer",
    "with Bearer and the token lets a call in, in any case of the scheme",
    async () => {
      const { token } = service().service.owner;
      for (const form of [`Bearer ${token}`, `bearer ${token}`, `BEARER   ${token}`]) {
        expect([form, await ask(`Authorization: ${form}`)]).toEqual([form, 200]);
        expect([form, await ask(`aUTHORIZATION: ${form}`)]).toEqual([form, 200]);
      }
    },
  );

  verifies(
    "errors.401.none",
    "is needed: none, an empty one and another scheme are 401 with a challenge",
    async () => {
      const { token } = service().service.owner;
      expect(await status(null)).toBe(401);
      for (const form of [
        "",
        "Bearer",
        "Bearer ",
        token,
        `Basic ${token}`,
        `Basic ${btoa(`x:${token}`)}`,
        `Bearer\t${token}`,
        `Bearer ${token} x`,
        `Bearer ${token.slice(0, 20)} ${token.slice(20)}`,
        `Bearer "${token}"`,
        `Token ${token}`,
      ]) {
        expect([form, await ask(`Authorization: ${form}`)]).toEqual([form, 401]);
      }
    },
  );

  test("may stand only once: two are 400", async () => {
    const line = `Authorization: Bearer ${service().service.owner.token}`;
    expect(await ask(line, line)).toBe(400);
  });

  verifies("errors.401.none", "is the only place: a token in the query or a cookie is none", async () => {
    const { token } = service().service.owner;
    for (const name of ["token", "access_token", "authorization"]) {
      expect(await service().call("app", {}, { token: null, suffix: `?${name}=${token}` })).toMatchObject({
        status: 401,
      });
      expect(await ask(`Cookie: ${name}=${token}`)).toBe(401);
    }
  });

  verifies("token.public-app", "is not looked at by an app with auth off, and by no other app", async () => {
    expect(await service().call("open", {}, { token: null })).toMatchObject({ status: 200 });
    expect(await service().call("open", {}, { token: "nonsense" })).toMatchObject({ status: 200 });
    expect(await service().call("app", {}, { token: null })).toMatchObject({ status: 401 });
  });
});

test("what is kept of a token finds it again by the hash of its jti alone", async () => {
  const { claims } = await takeApart();
  const jtiHash = createHash("sha256").update(String(claims.jti)).digest();
  const known = await service().service.store.tokens.findByJtiHash(jtiHash);
  expect(known?.account.id).toBe(claims.sub);
});
