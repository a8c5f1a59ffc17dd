import { setImmediate } from "node:timers/promises";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { KeyRing } from "../../../src/identity/key-ring.ts";
import { requireRole } from "../../../src/identity/principal.ts";
import { TokenWatch } from "../../../src/identity/token-watch.ts";
import { Tokens } from "../../../src/identity/tokens.ts";
import { Seal, loadMasterKey } from "../../../src/kit/seal.ts";
import { AppError } from "../../../src/model/errors.ts";
import type { Store } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";
import { openOneThreadStore } from "../../support/one-thread-store.ts";
import { verifies } from "../../verifies.ts";

const HOUR_MS = 3_600_000;
const GRACE_MS = 300_000;
const PROJECT = "p-one";
const LIMITS = { apps: ["app"], functions: null, origins: null, callsPerMinute: null };

/** Tokens on a database, watched over; the clock moves by hand, and the database answers between two moves. */
async function scratch() {
  const dataDir = mkdtempSync(path.join(tmpdir(), "millrace-watch-"));
  const store = await openOneThreadStore({ databaseUrl: null, dataDir });
  onTestFinished(async () => {
    await store.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  const clock = new HandClock();
  await store.projects.insert({ id: PROJECT, name: "one", createdAt: clock.now() });
  const keys = await KeyRing.open(store, new Seal(loadMasterKey(path.join(dataDir, "master.key"))), clock);
  const database = { isAway: false, asked: 0 };
  const findByJtiHash: Store["tokens"]["findByJtiHash"] = async (hash) => {
    database.asked += 1;
    if (database.isAway) throw new AppError("storage_unavailable");
    return await store.tokens.findByJtiHash(hash);
  };
  const parts = { keys, instanceId: "instance", clock, graceMs: GRACE_MS };
  const tokens = new Tokens({ store: { ...store, tokens: { findByJtiHash } }, ...parts });
  // Another process: it tells this one nothing.
  const elsewhere = new Tokens({ store, ...parts });
  const watch = new TokenWatch(tokens, clock);
  const issue = async (role: "call" | "run" | "admin" = "run", lifeMs = HOUR_MS) =>
    await tokens.issue({
      projectId: PROJECT,
      name: "x",
      role,
      limits: role === "call" ? LIMITS : null,
      expiresAt: clock.now() + lifeMs,
    });
  const issueForUser = async (accountId: string, user: string, lifeMs = HOUR_MS) =>
    (await tokens.issueForUser(PROJECT, accountId, { user, lifeMs }))?.token ?? "";
  /** Holds on to a token; gives why it was refused, and how long after `mark`. */
  const hold = async (token: string, role: "call" | "run" | "admin" = "call") => {
    const held = { refusals: [] as string[], at: 0, release: () => {} };
    held.release = watch.hold(
      await tokens.admit(token),
      (principal) => requireRole(principal, PROJECT, role),
      ({ code }) => {
        held.refusals.push(code);
        held.at = clock.elapsedMs;
      },
    );
    return held;
  };
  /** Time passes; whatever asks the database has its answer before the next tenth of a second. */
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 100) {
      clock.advance(100);
      for (let turn = 0; turn < 10; turn++) await setImmediate();
    }
  };
  return { store, clock, keys, database, tokens, elsewhere, issue, issueForUser, hold, pass };
}

type Scratch = Awaited<ReturnType<typeof scratch>>;
type Ending = (site: Scratch, accountId: string) => Promise<unknown>;

/** Everything that ends a right, done by this process or by one that tells nothing. */
const ENDINGS: Record<string, Ending> = {
  "revoked here": ({ tokens }, id) => tokens.revoke(PROJECT, id),
  "revoked elsewhere": ({ elsewhere }, id) => elsewhere.revoke(PROJECT, id),
  "rotated here": ({ tokens }, id) => tokens.rotate(PROJECT, id, { expiresAt: null, overlapMs: 0 }),
  "rotated elsewhere": ({ elsewhere }, id) =>
    elsewhere.rotate(PROJECT, id, { expiresAt: null, overlapMs: 0 }),
  "ended earlier elsewhere": ({ elsewhere, clock }, id) =>
    elsewhere.update(PROJECT, id, { expiresAt: clock.now() }),
};

for (const [name, ending] of Object.entries(ENDINGS)) {
  verifies("revoked.soon", `an account that is ${name} loses all that its tokens hold open`, async () => {
    const site = await scratch();
    const account = await site.issue("call");
    const other = await site.issue("call");
    const ada = await site.issueForUser(account.accountId, "ada");
    const held = [await site.hold(account.token), await site.hold(ada), await site.hold(ada)];
    const untouched = await site.hold(await site.issueForUser(other.accountId, "ada"));
    await site.pass(60_000);
    expect(held.flatMap(({ refusals }) => refusals)).toEqual([]);
    const mark = site.clock.elapsedMs;
    await ending(site, account.accountId);
    await site.pass(6_000);
    for (const { refusals, at } of held) {
      expect(refusals).toEqual(["unauthorized"]);
      // What it holds has a second for its last words.
      expect(at - mark).toBeLessThanOrEqual(4_000);
    }
    expect(untouched.refusals).toEqual([]);
  });
}

verifies(
  "revoked.soon",
  "a token that expires ends what it holds, and so does the end of an overlap",
  async () => {
    const { issue, issueForUser, hold, pass, tokens, clock } = await scratch();
    const account = await issue("call");
    const short = await hold(await issueForUser(account.accountId, "ada", 10_000));
    const long = await hold(await issueForUser(account.accountId, "ada"));
    await tokens.rotate(PROJECT, account.accountId, { expiresAt: null, overlapMs: 30_000 });
    await pass(9_900);
    expect(short.refusals).toEqual([]);
    await pass(1_000);
    expect([short.refusals, long.refusals]).toEqual([["unauthorized"], []]);
    await pass(30_000 - clock.elapsedMs - 100);
    expect(long.refusals).toEqual([]);
    await pass(1_000);
    expect(long.refusals).toEqual(["unauthorized"]);
  },
);

verifies("revoked.soon", "who may do less loses what needs more", async () => {
  const { issue, hold, pass, elsewhere, tokens } = await scratch();
  for (const by of [tokens, elsewhere]) {
    const { token, accountId } = await issue("admin");
    const [strong, weak] = [await hold(token, "admin"), await hold(token, "run")];
    await by.update(PROJECT, accountId, { role: "run" });
    await pass(4_000);
    expect([strong.refusals, weak.refusals]).toEqual([["forbidden"], []]);
  }
});

verifies("revoked.soon", "tokens signed with a key that is retired end what they hold", async () => {
  const { issue, hold, pass, keys, tokens } = await scratch();
  const held = await hold((await issue()).token, "run");
  for (let i = 0; i < 2; i++) {
    await pass(1_000);
    expect(held.refusals).toEqual([]);
    await keys.rotate();
    tokens.reconsiderAll();
  }
  await pass(1_000);
  expect(held.refusals).toEqual(["unauthorized"]);
});

verifies("revoked.only", "a change that leaves the right ends nothing", async () => {
  const { issue, hold, pass, tokens } = await scratch();
  const { token, accountId } = await issue("admin");
  const held = await hold(token, "run");
  await tokens.update(PROJECT, accountId, { name: "y", description: "z" });
  await tokens.update(PROJECT, accountId, { role: "deploy" });
  await tokens.rotate(PROJECT, accountId, { expiresAt: null, overlapMs: HOUR_MS });
  tokens.reconsiderAll();
  await pass(10_000);
  expect(held.refusals).toEqual([]);
});

test("while the database is away nothing is ended, and when it is back what was revoked is", async () => {
  const { issue, hold, pass, database, elsewhere } = await scratch();
  const [good, bad] = [await issue(), await issue()];
  const [kept, ended] = [await hold(good.token, "run"), await hold(bad.token, "run")];
  database.isAway = true;
  await elsewhere.revoke(PROJECT, bad.accountId);
  await pass(GRACE_MS + 20_000);
  expect([kept.refusals, ended.refusals]).toEqual([[], []]);
  database.isAway = false;
  await pass(5_000);
  expect([kept.refusals, ended.refusals]).toEqual([[], ["unauthorized"]]);
});

test("a token is held as long as something is open by it, and what replaces it then", async () => {
  const clock = new HandClock();
  const token = (name: string) => ({ token: name, principal: { projectId: null } as never });
  const [old, fresh] = [token("old"), token("fresh")];
  const holders = new Map([
    [old, 0],
    [fresh, 0],
  ]);
  const tokens = {
    isGood: (each: typeof old) => each !== old,
    admit: async () => await Promise.resolve(fresh),
    hold: (each: typeof old, isHeld: boolean) =>
      void holders.set(each, holders.get(each)! + (isHeld ? 1 : -1)),
  };
  const watch = new TokenWatch(tokens, clock);
  const releases = [1, 2].map(() =>
    watch.hold(
      old,
      () => {},
      () => {},
    ),
  );
  expect([...holders.values()]).toEqual([2, 0]);
  clock.advance(500);
  await setImmediate();
  expect([...holders.values()]).toEqual([0, 2]);
  for (const release of [...releases, ...releases]) release();
  expect([...holders.values()]).toEqual([0, 0]);
});

test("what is released is left alone, and nothing is watched for nobody", async () => {
  const { issue, hold, pass, clock, tokens } = await scratch();
  const idle = clock.pending;
  const { token, accountId } = await issue();
  const held = await hold(token, "run");
  expect(clock.pending).toBe(idle + 1);
  await tokens.revoke(PROJECT, accountId);
  held.release();
  expect(clock.pending).toBe(idle);
  await pass(5_000);
  expect(held.refusals).toEqual([]);
});

test("the tokens of many users of one account cost the database as much as one", async () => {
  const { issue, issueForUser, hold, pass, database } = await scratch();
  const { accountId } = await issue("call");
  const users = await Promise.all(
    Array.from({ length: 300 }, (_, i) => issueForUser(accountId, `user ${i}`)),
  );
  const held = await Promise.all(users.map((token) => hold(token)));
  await pass(3_000);
  database.asked = 0;
  await pass(30_000);
  expect(held.flatMap(({ refusals }) => refusals)).toEqual([]);
  // Once in two and a half seconds, or with each look at the most.
  expect(database.asked).toBeGreaterThanOrEqual(10);
  expect(database.asked).toBeLessThanOrEqual(60);
});
