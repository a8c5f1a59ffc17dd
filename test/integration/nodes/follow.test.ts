import { randomBytes } from "node:crypto";
import { pino } from "pino";
import { expect, onTestFinished } from "vitest";
import { followSecrets } from "../../../src/apps/node-work.ts";
import { AppSecrets, Secrets } from "../../../src/apps/secrets.ts";
import { followIdentity } from "../../../src/identity/identity-parts.ts";
import { KeyRing } from "../../../src/identity/key-ring.ts";
import { Sessions } from "../../../src/identity/sessions.ts";
import { Tokens } from "../../../src/identity/tokens.ts";
import { Condition } from "../../../src/kit/concurrency.ts";
import { systemClock as clock } from "../../../src/kit/clock.ts";
import { Seal } from "../../../src/kit/seal.ts";
import { Changes } from "../../../src/nodes/changes.ts";
import { followSigningSecrets, SigningSecrets } from "../../../src/runs/webhooks/signing-secrets.ts";
import { openStore } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";
import { type TestDatabase, testDatabases } from "../../support/databases.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const log = pino({ level: "silent" });
const HOUR_MS = 3_600_000;

/** What a node remembers of what is stored, on a clock of its own that stands still: nothing is asked for by age. */
async function node(database: TestDatabase, seal: Seal) {
  const store = await openStore(database);
  onTestFinished(() => store.close());
  const changes = await Changes.open({ store, clock, log });
  onTestFinished(() => changes.stop());
  const own = new HandClock(clock.now());
  const keys = await KeyRing.open(store, seal, clock);
  const tokens = new Tokens({ store, keys, instanceId: "instance", clock: own, graceMs: HOUR_MS });
  const sessions = new Sessions({ store, tokens, clock: own });
  const secrets = new Secrets(store, seal, own);
  const appSecrets = new AppSecrets(secrets);
  const signing = new SigningSecrets({ store, seal, clock: own });
  followIdentity(changes, { tokens, keys });
  followSigningSecrets(changes, signing);
  const refreshed: string[] = [];
  followSecrets(changes, {
    refreshAllSecrets: async () => {},
    refreshSecrets: async (projectId, appNumber) => {
      if (await appSecrets.refresh({ projectId, appNumber: appNumber ?? 0 }))
        refreshed.push(`${projectId}/${appNumber}`);
    },
  });
  const condition = new Condition();
  // Behind the others: they have acted by then.
  for (const topic of ["account", "person"] as const) changes.on(topic, () => condition.notify());
  changes.start();
  return { store, keys, tokens, sessions, secrets, appSecrets, signing, refreshed, condition };
}

async function twoNodes() {
  const database = await databases.fresh("postgres");
  const seal = new Seal(randomBytes(32));
  const a = await node(database, seal);
  await a.store.projects.insert({ id: "p-1", name: "one", createdAt: 1 });
  return [a, await node(database, seal)] as const;
}

verifies(
  ["changes.identity", "sa.delete"],
  "who is revoked, demoted or signed out by one node is so at the other, whatever that remembers",
  async () => {
    const [a, b] = await twoNodes();
    const account = { projectId: "p-1", name: "x", role: "admin" as const, expiresAt: clock.now() + HOUR_MS };
    const { accountId, token } = await a.tokens.issue(account);
    const known = await b.tokens.admit(token);
    expect([b.tokens.isGood(known), known.principal.role]).toEqual([true, "admin"]);
    await a.tokens.update("p-1", accountId, { role: "run" });
    await until("the old role is forgotten", () => !b.tokens.isGood(known), b.condition);
    const demoted = await b.tokens.admit(token);
    expect(demoted.principal.role).toBe("run");
    await a.tokens.revoke("p-1", accountId);
    await until("it is revoked", () => !b.tokens.isGood(demoted), b.condition);
    await expect(b.tokens.admit(token)).rejects.toMatchObject({ code: "unauthorized" });

    const person = { id: "u-1", email: "a@example.com", provenAt: null, createdAt: 1, updatedAt: 1 };
    await a.store.people.insertFirst({ ...person, signInKey: randomBytes(32) });
    const { accessToken } = await a.sessions.open("u-1", "browser");
    const signedIn = await b.tokens.admit(accessToken);
    expect(b.tokens.isGood(signedIn)).toBe(true);
    await a.sessions.endOthers("u-1", null);
    await until("the session is over", () => !b.tokens.isGood(signedIn), b.condition);
    await expect(b.tokens.admit(accessToken)).rejects.toMatchObject({ code: "unauthorized" });
  },
);

verifies("changes.identity", "keys that one node makes sign and verify at the other", async () => {
  const [a, b] = await twoNodes();
  const account = { projectId: "p-1", name: "x", role: "run" as const, expiresAt: clock.now() + HOUR_MS };
  const first = a.keys.signingKey.id;
  expect(b.keys.signingKey.id).toBe(first);
  const { token } = await a.tokens.issue(account);
  const known = await b.tokens.admit(token);
  await a.keys.rotate();
  await until("it signs with the new one", () => b.keys.signingKey.id === a.keys.signingKey.id);
  expect(await b.tokens.admit(token)).toBe(known);
  await a.keys.rotate();
  await until("the first is void", () => !b.keys.publicKeys().some(({ kid }) => kid === first));
  // What was signed with it is judged again before it counts.
  await until("so is what it signed", () => !b.tokens.isGood(known));
  await expect(b.tokens.admit(token)).rejects.toMatchObject({ code: "unauthorized" });
});

verifies("changes.secrets", "secrets that one node changes are the other's too", async () => {
  const [a, b] = await twoNodes();
  const scope = { projectId: "p-1", appNumber: 7 };
  await b.appSecrets.load(scope);
  await a.secrets.replace({ ...scope, appNumber: 0 }, { SHARED: "1", OWN: "project" });
  await a.secrets.replace(scope, { OWN: "app" });
  await until("both are read", () => b.refreshed.length >= 2);
  expect(b.appSecrets.of(scope)).toEqual({ SHARED: "1", OWN: "app" });
  // Told of, and the same: nobody is to start anew for that.
  await a.secrets.replace(scope, { OWN: "app" });
  await a.secrets.replace({ ...scope, appNumber: 0 }, {});
  await until("the last is read", () => b.refreshed.length >= 3);
  expect(b.refreshed.toSorted()).toEqual(["p-1/7", "p-1/null", "p-1/null"]);

  const [secret] = await a.signing.active("p-1");
  expect(await b.signing.active("p-1")).toEqual([secret]);
  const { id } = await a.signing.make("p-1");
  await until("there are two", async () => (await b.signing.active("p-1")).length === 2);
  await a.signing.retire("p-1", id);
  await until("there is one", async () => (await b.signing.active("p-1")).length === 1);
});
