import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { type JWTHeaderParameters, SignJWT } from "jose";
import { describe, expect, onTestFinished, test } from "vitest";
import { testSettings } from "../../support/test-settings.ts";
import { KeyRing, loadTokenKeys } from "../../../src/identity/key-ring.ts";
import { Tokens } from "../../../src/identity/tokens.ts";
import { createLog } from "../../../src/kit/log.ts";
import { loadMasterKey, Seal } from "../../../src/kit/seal.ts";
import { startService } from "../../../src/main.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { testDatabases } from "../../support/databases.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { HandClock } from "../../support/clocks.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const HOUR_MS = 3_600_000;

/** Tokens on a database of their own, with a clock that the test moves. */
async function tokensAt(startMs: number) {
  const { dataDir, databaseUrl } = await databases.fresh("sqlite");
  const store = await openStore({ dataDir, databaseUrl });
  let isOpen = true;
  const close = async () => {
    if (isOpen) await store.close();
    isOpen = false;
  };
  onTestFinished(close);
  await store.projects.insert({ id: "p-one", name: "one", createdAt: startMs });
  const seal = new Seal(loadMasterKey(path.join(dataDir, "master.key")));
  const time = new HandClock(startMs);
  const keys = await KeyRing.open(store, seal, time);
  const [key] = await loadTokenKeys(store, seal, startMs);
  if (!key) throw new Error("there is no key");
  const asked = { count: 0 };
  const findByJtiHash: Store["tokens"]["findByJtiHash"] = async (hash) => {
    const known = await store.tokens.findByJtiHash(hash);
    asked.count += 1;
    return known;
  };
  const counting = { ...store, tokens: { ...store.tokens, findByJtiHash } };
  const tokens = new Tokens({ store: counting, keys, instanceId: "instance", clock: time, graceMs: 300_000 });
  const issue = (role: "run" | "admin" = "run") =>
    tokens.issue({ projectId: "p-one", name: "x", role, expiresAt: startMs + HOUR_MS });
  return { store, tokens, time, issue, key, asked, close, dataDir };
}

function decode(part: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(part, "base64url").toString()) as Record<string, unknown>;
}

describe("a token that was verified and remembered", () => {
  verifies("token.remembered", "counts without being verified again, and stops at its expiry", async () => {
    const { tokens, time, issue } = await tokensAt(1_000_000_000);
    const { token } = await issue();
    expect(tokens.recall(token)).toBeUndefined();
    const verified = await tokens.verify(token);
    time.nowMs += 1_000;
    expect(tokens.recall(token)).toBe(verified);
    time.nowMs = 1_000_000_000 + HOUR_MS - 1;
    await expect(tokens.verify(token)).resolves.toBe(verified);
    expect(tokens.isGood(verified)).toBe(true);
    time.nowMs += 1;
    expect([tokens.isGood(verified), tokens.recall(token)]).toEqual([false, undefined]);
    await expect(tokens.verify(token)).rejects.toMatchObject({ code: "unauthorized" });
  });

  verifies(
    "token.remembered",
    "stops at once when revoked here, for everyone who holds on to it",
    async () => {
      const { tokens, issue } = await tokensAt(1_000_000_000);
      const { token, accountId } = await issue();
      const other = await issue();
      // Two connections that show it first at the same moment.
      const held = await Promise.all([
        tokens.verify(token),
        tokens.verify(token),
        tokens.verify(other.token),
      ]);
      expect(await tokens.revoke("p-one", accountId)).toBe(true);
      expect(held.map((each) => tokens.isGood(each))).toEqual([false, false, true]);
      expect(tokens.recall(token)).toBeUndefined();
      await expect(tokens.verify(token)).rejects.toMatchObject({ code: "unauthorized" });
      expect(await tokens.revoke("p-other", other.accountId)).toBe(false);
      await expect(tokens.verify(other.token)).resolves.toBeDefined();
    },
  );

  verifies(
    "token.remembered",
    "stops within 5 s when revoked elsewhere, though nobody used it meanwhile",
    async () => {
      const { store, tokens, time, issue } = await tokensAt(1_000_000_000);
      const { token, accountId } = await issue();
      const held = await tokens.verify(token);
      await store.accounts.revoke({ id: accountId, projectId: "p-one", now: time.nowMs });
      time.nowMs += 5_001;
      expect([tokens.isGood(held), tokens.recall(token)]).toEqual([false, undefined]);
      await expect(tokens.verify(token)).rejects.toMatchObject({ code: "unauthorized" });
    },
  );

  test("is looked at again in passing while it is in use, so that nobody waits for it", async () => {
    const { store, tokens, time, issue, asked } = await tokensAt(1_000_000_000);
    const { token, accountId } = await issue();
    const held = await tokens.verify(token);
    const useAfter = async (passedMs: number): Promise<boolean> => {
      const before = asked.count;
      time.nowMs += passedMs;
      const isGood = tokens.isGood(held);
      await until("the database has been asked", () => asked.count === before + 1);
      return isGood;
    };
    // Each step would be too long without the judgement that the step before brought.
    for (let step = 0; step < 5; step++) expect(await useAfter(4_000)).toBe(true);
    await store.accounts.revoke({ id: accountId, projectId: "p-one", now: time.nowMs });
    expect(await useAfter(4_000)).toBe(true);
    expect(tokens.isGood(held)).toBe(false);
  });

  test("stays good while the database is away, and a new one is no token until it is back", async () => {
    const { tokens, time, issue, close } = await tokensAt(1_000_000_000);
    const { token } = await issue();
    const unseen = await issue();
    const held = await tokens.verify(token);
    await close();
    time.nowMs += 60_000;
    expect(tokens.isGood(held)).toBe(false);
    expect(await tokens.verify(token)).toBe(held);
    expect(tokens.isGood(held)).toBe(true);
    await expect(tokens.verify(unseen.token)).rejects.not.toMatchObject({ code: "unauthorized" });
    time.nowMs += HOUR_MS;
    await expect(tokens.verify(token)).rejects.toMatchObject({ code: "unauthorized" });
  });

  test("has the project and the role of its account's row, whatever the token claims", async () => {
    const { tokens, issue, key } = await tokensAt(1_000_000_000);
    const { token, accountId } = await issue("run");
    const [header, claims] = token.split(".").slice(0, 2).map(decode);
    const forged = await new SignJWT({ ...claims, role: "admin", project_id: "p-other" })
      .setProtectedHeader(header as JWTHeaderParameters)
      .sign(key.privateKey);
    const { principal } = await tokens.verify(forged);
    expect(principal).toMatchObject({ role: "run", projectId: "p-one", accountId });
  });
});

verifies(
  "token.hash-only",
  "neither a token nor its jti is found anywhere in the data directory",
  async () => {
    const { issue, close, dataDir } = await tokensAt(Date.now());
    const { token } = await issue();
    const [, body = "", signature = ""] = token.split(".");
    const jti = String(decode(body)["jti"]);
    const wholeStore = async () => {
      const files = await readdir(dataDir, { recursive: true, withFileTypes: true });
      const plain = files.filter((file) => file.isFile());
      return Buffer.concat(
        await Promise.all(plain.map((file) => readFile(path.join(file.parentPath, file.name)))),
      );
    };
    for (const bytes of [await wholeStore(), await close().then(wholeStore)]) {
      // The project's id shows that these bytes are the database.
      expect(bytes.includes("p-one")).toBe(true);
      for (const secret of [jti, jti.replaceAll("-", ""), signature, body])
        expect(bytes.includes(secret)).toBe(false);
      expect(bytes.includes(Buffer.from(jti.replaceAll("-", ""), "hex"))).toBe(false);
    }
  },
);

describe("on the run endpoint", () => {
  const service = sharedService({ app: { main: "def run():\n    return 1\n" } });
  const expiresAt = Date.now() + HOUR_MS;

  async function call(token: string, projectId = service().service.owner.projectId, app = "app") {
    const response = await fetch(`${service().service.apiUrl}/v4/${projectId}/${app}/run`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}` },
    });
    const body = (await response.json()) as Record<string, unknown>;
    delete body["request_id"];
    return { status: response.status, challenge: response.headers.get("www-authenticate"), body };
  }

  verifies("token.role-run", "a token of role run calls apps", async () => {
    const { tokens, owner } = service().service;
    const { token } = await tokens.issue({ projectId: owner.projectId, name: "x", role: "run", expiresAt });
    expect(await call(token)).toMatchObject({ status: 200 });
  });

  verifies(
    "errors.401.bad",
    "a revoked token is 401 with a challenge, on the connection it was used on too",
    async () => {
      const { tokens, owner } = service().service;
      const { projectId } = owner;
      const { token, accountId } = await tokens.issue({ projectId, name: "x", role: "run", expiresAt });
      expect(await call(token)).toMatchObject({ status: 200 });
      await tokens.revoke(projectId, accountId);
      expect(await call(token)).toMatchObject({ status: 401, challenge: "Bearer" });
      expect(await call(owner.token)).toMatchObject({ status: 200 });
    },
  );

  verifies(
    ["errors.403.other-project", "errors.403.no-project"],
    "another's project and one that does not exist are 403 in the same words, before and after it is remembered",
    async () => {
      const { tokens, store, owner } = service().service;
      await store.projects.insert({ id: "p-theirs", name: "theirs", createdAt: 1 });
      const theirs = await tokens.issue({ projectId: "p-theirs", name: "x", role: "admin", expiresAt });
      const refused = {
        status: 403,
        challenge: null,
        body: expect.objectContaining({ code: "forbidden" }) as object,
      };
      const answers = [
        await call(theirs.token),
        await call(theirs.token),
        await call(theirs.token, owner.projectId, "nothing"),
        await call(owner.token, "p-theirs"),
        await call(owner.token, "p-nobody"),
        await call(owner.token, "p-nobody", "nothing"),
      ];
      for (const answer of answers) expect(answer).toEqual(refused);
      expect(new Set(answers.map(({ body }) => JSON.stringify(body))).size).toBe(1);
    },
  );
});

verifies("token.instance", "a new public URL and a new start void no token", async () => {
  const { dataDir } = await databases.fresh("sqlite");
  const log = createLog("silent");
  const claims = [];
  let token = "";
  for (const publicApiUrl of [null, "https://one.example", "https://two.example"]) {
    const flags = { dataDir, apiPort: 0, basePort: 0, ...(publicApiUrl && { publicApiUrl }) };
    const settings = testSettings(flags);
    const service = await startService(settings, { log });
    const { tokens, owner } = service;
    token ||= (
      await tokens.issue({
        projectId: owner.projectId,
        name: "x",
        role: "run",
        expiresAt: Date.now() + HOUR_MS,
      })
    ).token;
    expect((await tokens.verify(token)).principal.projectId).toBe(owner.projectId);
    claims.push(decode(owner.token.split(".")[1] ?? ""));
    await service.stop();
  }
  expect(claims[1]).toEqual(claims[0]);
  expect(claims[2]).toEqual(claims[0]);
  expect(claims[0]).toMatchObject({ iss: expect.stringMatching(/^[0-9a-f-]{36}$/) as string });
});
