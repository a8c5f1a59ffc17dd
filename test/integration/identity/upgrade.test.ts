import { randomBytes, scryptSync } from "node:crypto";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { Seal, loadMasterKey } from "../../../src/kit/seal.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import type { DatabaseKind } from "../../support/databases.ts";
import { HandClock } from "../../support/clocks.ts";
import { IdentitySite } from "../../support/identity-site.ts";
import { makeOldDatabase } from "../../support/old-release.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const COST = { N: 2 ** 12, r: 8, p: 2 };

/** A password as releases before invitations kept it. */
function oldPassword(seal: Seal, personId: string, password: string): Buffer {
  const salt = randomBytes(16);
  const hash = scryptSync(password, salt, 32, COST);
  const kept = { ...COST, salt: salt.toString("base64"), hash: hash.toString("base64") };
  return seal.close(Buffer.from(JSON.stringify(kept)), `people/${personId}/password`);
}

/**
 * As an older release left it: Ada was first, Grace has signed in, Vic was invited to Ada's project as an owner and
 * by Mallory to hers, and Ada's second project has no owner but Vic.
 */
async function oldInstallation(kind: DatabaseKind) {
  const database = await databases.empty(kind);
  const seal = new Seal(loadMasterKey(path.join(database.dataDir, "master.key")));
  const clock = new HandClock();
  const now = clock.nowMs;
  const person = (name: string, password: string | null) => ({
    id: `u-${name}`,
    email: `${name}@example.com`,
    sealedPassword: password === null ? null : oldPassword(seal, `u-${name}`, password),
    createdAt: now,
    updatedAt: now,
  });
  const member = (name: string, projectId: string, role: "owner" | "member") => ({
    personId: `u-${name}`,
    projectId,
    role,
    createdAt: now,
  });
  await makeOldDatabase(database, "0009-delivery-age", {
    meta: [{ key: "first_person", value: "u-ada" }],
    projects: ["p-one", "p-left", "p-b", "p-empty"].map((id) => ({ id, name: id, createdAt: now })),
    people: [
      person("ada", "adas old words"),
      person("grace", "graces old words"),
      person("mallory", "mallorys old words"),
      person("vic", null),
    ],
    memberships: [
      member("ada", "p-one", "owner"),
      member("grace", "p-one", "member"),
      member("vic", "p-one", "owner"),
      member("vic", "p-left", "owner"),
      member("ada", "p-left", "member"),
      member("mallory", "p-b", "owner"),
      member("vic", "p-b", "member"),
    ],
    sessions: [
      {
        id: "s-1",
        personId: "u-grace",
        kind: "browser",
        familyHash: randomBytes(32),
        secretHash: randomBytes(32),
        createdAt: now,
        refreshedAt: now,
        expiresAt: now + 1_000_000,
      },
    ],
  });
  const site = await IdentitySite.open(database, clock);
  const signIn = async (email: string, password: string) =>
    (await site.ask("POST", "/v2/session", { body: { email, password } })).json;
  const setPassword = async (id: string, password: string) => {
    const link = site.links.password({ id, updatedAt: now }, "operator");
    return (await site.ask("POST", "/v2/password", { body: { link, password } })).status;
  };
  return { database, site, clock, signIn, setPassword };
}

describe.each(DATABASE_KINDS)("an upgrade on %s", (kind) => {
  verifies("invitation.upgrade", "keeps who has signed in, and voids what was pending", async () => {
    const { site, signIn, setPassword } = await oldInstallation(kind);
    for (const name of ["ada", "grace", "mallory"]) {
      const email = `${name}@example.com`;
      expect(await signIn(email, `${name}s old words`)).toMatchObject({ personId: `u-${name}` });
      expect(await signIn(email, "other words")).toMatchObject({ code: "unauthorized" });
    }
    expect((await site.sessions.list("u-grace")).map(({ id }) => id)).toContain("s-1");
    // Whoever has a link for Vic, Mallory too, has nothing.
    expect(await setPassword("u-vic", "mallory again")).toBe(403);
    expect(await site.store.people.find("u-vic")).toBeNull();
    const membersOf = async (projectId: string) =>
      (await site.store.memberships.list(projectId))
        .map(({ personId, role }) => `${personId} ${role}`)
        .toSorted();
    expect(await membersOf("p-one")).toEqual(["u-ada owner", "u-grace member"]);
    expect(await membersOf("p-b")).toEqual(["u-mallory owner"]);
    // It has an owner still: who runs the installation.
    expect(await membersOf("p-left")).toEqual(["u-ada owner"]);
    expect(await membersOf("p-empty")).toEqual([]);
    // A link that the operator made for somebody who has signed in is as good as before.
    expect(await setPassword("u-grace", "graces new words")).toBe(200);
    expect(await signIn("grace@example.com", "graces new words")).toMatchObject({ personId: "u-grace" });
  });

  test("makes addresses labels: somebody new may have one of before, and both sign in", async () => {
    const { database, site, signIn } = await oldInstallation(kind);
    const { accessToken: ada } = await signIn("ada@example.com", "adas old words");
    const link = await site.invite(ada, { email: "grace@example.com" });
    const { personId } = (await site.signUp(link, "grace@example.com", "another graces")).json;
    expect(await signIn("grace@example.com", "another graces")).toMatchObject({ personId });
    expect(await signIn("grace@example.com", "graces old words")).toMatchObject({ personId: "u-grace" });
    // The next start finds nothing left to take over.
    expect(await site.store.people.listOld()).toEqual([]);
    const second = await IdentitySite.open(database, new HandClock());
    const body = { email: "grace@example.com", password: "graces old words" };
    expect((await second.ask("POST", "/v2/session", { body })).json).toMatchObject({ personId: "u-grace" });
  });

  test("leaves out a password that does not open, and starts all the same", async () => {
    const database = await databases.empty(kind);
    const other = new Seal(randomBytes(32));
    await makeOldDatabase(database, "0007-builds", {
      meta: [{ key: "first_person", value: "u-ada" }],
      people: [
        {
          id: "u-ada",
          email: "ada@example.com",
          sealedPassword: oldPassword(other, "u-ada", "adas old words"),
          createdAt: 1,
          updatedAt: 1,
        },
      ],
    });
    const site = await IdentitySite.open(database);
    const signIn = async (password: string) =>
      (await site.ask("POST", "/v2/session", { body: { email: "ada@example.com", password } })).status;
    expect(await signIn("adas old words")).toBe(401);
    const link = site.links.password({ id: "u-ada", updatedAt: 1 }, "operator");
    const body = { link, password: "adas new words" };
    expect((await site.ask("POST", "/v2/password", { body })).status).toBe(200);
    expect(await signIn("adas new words")).toBe(200);
  });
});
