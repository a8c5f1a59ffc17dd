import { randomUUID } from "node:crypto";
import { Client } from "pg";
import { pino } from "pino";
import { expect, onTestFinished } from "vitest";
import { Condition } from "../../../src/kit/concurrency.ts";
import { type Clock, systemClock } from "../../../src/kit/clock.ts";
import { Changes } from "../../../src/nodes/changes.ts";
import type { ChangePosition } from "../../../src/store/nodes/changes.ts";
import { HintLine } from "../../../src/store/postgres/hint-line.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";
import { type TestDatabase, testDatabases } from "../../support/databases.ts";
import { SilentProxy } from "../../support/silent-proxy.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const log = pino({ level: "silent" });

async function twoStores(): Promise<TestDatabase & { a: Store; b: Store }> {
  const database = await databases.fresh("postgres");
  const [a, b] = [await openStore(database), await openStore(database)];
  onTestFinished(async () => void (await Promise.all([a.close(), b.close()])));
  return { ...database, a, b };
}

async function connect(databaseUrl: string | null): Promise<Client> {
  const client = new Client({ connectionString: databaseUrl! });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** Reads changes of a store; notifies when somebody was told something. */
async function reader(store: Pick<Store, "changes" | "listen">, clock: Clock = systemClock) {
  const changes = await Changes.open({ store, clock, log });
  onTestFinished(() => changes.stop());
  const condition = new Condition();
  const told: string[] = [];
  const note = (subjects: readonly string[]): void => {
    told.push(...subjects);
    condition.notify();
  };
  return { changes, condition, told, note };
}

verifies(
  "changes.once",
  "every write that changes what others remember is told, and none that does not",
  async () => {
    const { a, b } = await twoStores();
    const now = 1;
    let position: ChangePosition = (await b.changes.since(null)).position;
    const told = async (write: Promise<unknown>): Promise<string[]> => {
      await write;
      const news = await b.changes.since(position);
      position = news.position;
      return news.changes.map(({ topic, subject }) => `${topic} ${subject}`);
    };
    const project = { id: "p-1", name: "one", createdAt: now };
    expect(await told(a.projects.insert(project))).toEqual(["project p-1"]);
    expect(await told(a.projects.insert(project))).toEqual([]);
    const account = { id: "sa-1", projectId: "p-1", name: "x", description: null, role: "run" as const };
    const key = { id: "sa-1", projectId: "p-1" };
    const hash = () => Buffer.from(randomUUID());
    await a.accounts.insert({
      account: { ...account, callLimits: null, createdAt: now, expiresAt: 100 },
      token: { jtiHash: hash() },
    });
    expect(await told(a.accounts.update({ ...key, change: { name: "y" } }))).toEqual(["account sa-1"]);
    const rotation = { now, expiresAt: 90, othersEndAt: 2, jtiHash: hash() };
    expect(await told(a.accounts.rotate({ ...key, ...rotation }))).toEqual(["account sa-1"]);
    expect(await told(a.accounts.touchLastUsed({ id: "sa-1", usedAt: 5 }))).toEqual([]);
    expect(await told(a.accounts.revoke({ ...key, now }))).toEqual(["account sa-1"]);
    expect(await told(a.accounts.revoke({ ...key, now }))).toEqual([]);

    const person = { id: "u-1", email: "a@example.com", provenAt: null, createdAt: now, updatedAt: now };
    expect(await told(a.people.insertFirst({ ...person, signInKey: hash() }))).toEqual(["person u-1"]);
    const signIn = { id: "u-1", signInKey: hash(), now: 2, updatedAt: now };
    expect(await told(a.people.setPassword(signIn))).toEqual(["person u-1"]);
    expect(await told(a.people.setEmail({ ...signIn, email: "b@example.com", updatedAt: 2 }))).toEqual([
      "person u-1",
    ]);
    expect(await told(a.people.prove({ id: "u-1", email: "b@example.com", now }))).toEqual(["person u-1"]);
    const made = { project: { ...project, id: "p-2" }, personId: "u-1", maxOwned: 9 };
    expect(await told(a.memberships.insertProject(made))).toEqual(["project p-2", "person u-1"]);
    const member = { personId: "u-1", projectId: "p-2" };
    // The last owner stays one.
    expect(await told(a.memberships.setRole({ ...member, role: "member" }))).toEqual([]);
    expect(await told(a.memberships.setRole({ ...member, role: "owner" }))).toEqual(["person u-1"]);
    const session = { personId: "u-1", kind: "browser" as const, createdAt: now, refreshedAt: now };
    const open = async (id: string, familyHash = hash()) =>
      await a.sessions.insert({ id, ...session, familyHash, secretHash: hash(), expiresAt: 1e15 });
    const family = hash();
    for (const id of ["s-1", "s-2"]) await open(id);
    await open("s-3", family);
    expect(await told(a.sessions.end({ id: "s-1", personId: "u-1" }))).toEqual(["person u-1"]);
    expect(await told(a.sessions.end({ id: "s-1", personId: "u-1" }))).toEqual([]);
    const stale = { kind: "browser" as const, familyHash: family, secretHash: hash(), nextHash: null };
    expect(await told(a.sessions.refresh({ ...stale, now, expiresAt: 9, graceMs: 0 }))).toEqual([
      "person u-1",
    ]);
    expect(await told(a.sessions.endOthers({ personId: "u-1", keptId: null }))).toEqual(["person u-1"]);

    const sealedMap = Buffer.from("x");
    const secrets = { projectId: "p-1", appNumber: 7, sealedMap, updatedAt: now };
    expect(await told(a.secrets.replace(secrets))).toEqual(["secrets p-1/7"]);
    const webhookSecret = { id: "whs-1", projectId: "p-1", sealedSecret: sealedMap, createdAt: now };
    expect(await told(a.webhookSecrets.insert(webhookSecret))).toEqual(["webhook-secrets p-1"]);
    expect(await told(a.webhookSecrets.retire({ id: "whs-1", projectId: "p-1", now }))).toEqual([
      "webhook-secrets p-1",
    ]);
    const signingKey = { id: "k-1", sealedPrivate: sealedMap, publicJwk: "{}", createdAt: now };
    expect(await told(a.signingKeys.insert(signingKey))).toEqual(["keys "]);
    expect(await told(a.signingKeys.rotate({ ...signingKey, id: "k-2" }))).toEqual(["keys "]);

    const details = {
      name: "n",
      home: "h",
      labels: {},
      capacity: { cpus: 1, memoryBytes: 1 },
      release: "1",
      runs: 0,
      startedAt: now,
      managementAddresses: [],
    };
    const sign = { owner: "n-1", leaseMs: 60_000, url: "https://a:1", details, isLeaving: false };
    expect(await told(a.nodes.renew(sign))).toEqual(["node n-1"]);
    expect(await told(a.nodes.renew(sign))).toEqual([]);
    expect(await told(a.nodes.renew({ ...sign, isLeaving: true }))).toEqual(["node n-1"]);
    const app = await a.apps.insertOrFind({ projectId: "p-1", name: "app", createdAt: now });
    const number = String(app.number);
    expect(
      await told(a.appOwners.take({ appNumbers: [app.number], owner: "n-1", dead: [], mayJudge: true })),
    ).toEqual([`app ${number}`, "node n-1"]);
    expect(
      await told(a.appOwners.take({ appNumbers: [app.number], owner: "n-1", dead: [], mayJudge: true })),
    ).toEqual([]);
    const handed = { appNumber: app.number, fence: 1, from: "n-1", to: null };
    expect(await told(a.appOwners.handOver(handed))).toEqual([`app ${number}`]);
    expect(await told(a.nodes.leave("n-1"))).toEqual(["node n-1"]);
    expect(await told(a.apps.markDeleted({ appNumber: app.number, now }))).toEqual([`app ${number}`]);
  },
);

verifies(
  "changes.once",
  "a change is read once, when its transaction is done, whichever began first",
  async () => {
    const { databaseUrl, a, b } = await twoStores();
    const [early, late] = [await connect(databaseUrl), await connect(databaseUrl)];
    const insert = (subject: string) =>
      `insert into changes (topic, subject, created_at) values ('app', '${subject}', 0)`;
    let { position } = await b.changes.since(null);
    const read = async (): Promise<string[]> => {
      const news = await b.changes.since(position);
      position = news.position;
      return news.changes.map(({ subject }) => subject);
    };
    await early.query("begin");
    await early.query(insert("early"));
    await late.query("begin");
    await late.query(insert("late"));
    await a.projects.insert({ id: "p-between", name: "", createdAt: 1 });
    expect(await read()).toEqual(["p-between"]);
    await late.query("commit");
    expect(await read()).toEqual(["late"]);
    await a.projects.insert({ id: "p-after", name: "", createdAt: 1 });
    expect(await read()).toEqual(["p-after"]);
    await early.query("commit");
    expect(await read()).toEqual(["early"]);
    await early.query("begin");
    await early.query(insert("never"));
    await early.query("rollback");
    expect(await read()).toEqual([]);
  },
);

/** By this no look is ever due by itself; what is put off for a moment is done. */
const hintedClock: Clock = {
  ...systemClock,
  after: (ms, act) => (ms > 100 ? new HandClock().after(ms, act) : systemClock.after(ms, act)),
};

verifies("changes.hint", "a change is told by a hint alone", async () => {
  const { a, b } = await twoStores();
  const { changes, condition, told, note } = await reader(b, hintedClock);
  const accounts: string[] = [];
  changes.on("project", note);
  changes.on("account", (subjects) => void accounts.push(...subjects));
  changes.start();
  // Who listens has a connection to tell others by.
  a.listen(() => {});
  await until("both are connected", async () => {
    await a.projects.insert({ id: randomUUID(), name: "", createdAt: 1 });
    return told.length > 0;
  });
  for (const id of ["p-1", "p-2", "p-3"]) {
    await a.projects.insert({ id, name: "", createdAt: 1 });
    await until(`${id} is told`, () => told.includes(id), condition);
  }
  expect(accounts).toEqual([]);
});

verifies("changes.hint", "without hints a change is found all the same", async () => {
  const { a, b } = await twoStores();
  const { changes, condition, told, note } = await reader({ changes: b.changes, listen: () => () => {} });
  changes.on("project", note);
  changes.start();
  for (const id of ["p-1", "p-2"]) {
    await a.projects.insert({ id, name: "", createdAt: 1 });
    await until(`${id} is told`, () => told.includes(id), condition);
  }
  expect(told).toEqual(["p-1", "p-2"]);
});

verifies("changes.once", "who cannot know what has changed is told so", async () => {
  const { databaseUrl, a, b } = await twoStores();
  const { position } = await b.changes.since(null);
  const isWhole = async (change: Partial<ChangePosition>) =>
    (await b.changes.since({ ...position, ...change })).isWhole;
  expect(await isWhole({})).toBe(true);
  expect(await isWhole({ at: position.at - 8 * 60_000 })).toBe(true);
  expect(await isWhole({ at: position.at - 10 * 60_000 })).toBe(false);
  expect(await isWhole({ server: "another" })).toBe(false);
  // More transactions than there ever were here: this server was told of the last ones by nobody.
  expect(await isWhole({ snapshot: "999999999:999999999:" })).toBe(false);
  const { changes, condition, told, note } = await reader(
    {
      changes: { ...b.changes, since: async (from) => await b.changes.since(from && { ...from, at: 0 }) },
      listen: (onHint) => b.listen(onHint),
    },
    new HandClock(),
  );
  changes.on("project", note);
  changes.onReset(() => note(["reset"]));
  changes.start();
  await until("it is told", () => told.includes("reset"), condition);
  // Too many at once.
  const client = await connect(databaseUrl);
  const many =
    "insert into changes (topic, subject, created_at) select 'app', i, 0 from generate_series(1, 5001) i";
  await client.query(many);
  const { changes: all, isWhole: isAll } = await a.changes.since(position);
  expect([all.length, isAll]).toEqual([5001, false]);
});

verifies("changes.once", "who failed is told again, together with what came meanwhile", async () => {
  const { a, b } = await twoStores();
  const { changes, condition, told, note } = await reader(b);
  const tries: (readonly string[])[] = [];
  changes.on("project", (subjects) => {
    tries.push(subjects);
    condition.notify();
    if (tries.length < 3) throw new Error("not now");
  });
  // This one never gets done: the others go on.
  changes.on("project", () => new Promise<never>(() => {}));
  changes.on("project", note);
  changes.start();
  await a.projects.insert({ id: "p-1", name: "", createdAt: 1 });
  await until("it has failed", () => tries.length === 1, condition);
  await a.projects.insert({ id: "p-2", name: "", createdAt: 1 });
  await until("the other is told", () => told.includes("p-2"), condition);
  await until("it was tried again", () => tries.length >= 3, condition);
  expect(tries[0]).toEqual(["p-1"]);
  expect(tries.at(-1)).toContain("p-1");
  await until("it has all", () => tries.flat().includes("p-2"), condition);
});

verifies("changes.pruned", "what is older than ten minutes goes, a thousand at a time", async () => {
  const { databaseUrl, a } = await twoStores();
  const client = await connect(databaseUrl);
  const insert = (ageMs: number, count: number) =>
    `insert into changes (topic, subject, created_at) select 'app', i,
       extract(epoch from now()) * 1000 - ${ageMs} from generate_series(1, ${count}) i`;
  await client.query(insert(11 * 60_000, 1_500));
  await client.query(insert(9 * 60_000, 10));
  await client.query("begin");
  await client.query("select pg_advisory_xact_lock(7012846015)");
  expect(await a.changes.prune()).toBe(0);
  await client.query("commit");
  expect([await a.changes.prune(), await a.changes.prune(), await a.changes.prune()]).toEqual([1000, 500, 0]);
  const { rows } = await client.query("select count(*)::integer as count from changes");
  expect(rows).toEqual([{ count: 10 }]);
});

verifies("changes.hint", "hints come again after the connection that listens was lost", async () => {
  const { databaseUrl, dataDir, a } = await twoStores();
  const proxy = await SilentProxy.open(databaseUrl!);
  const b = await openStore({ databaseUrl, dataDir, databaseDirectUrl: proxy.url });
  onTestFinished(() => b.close());
  let count = 0;
  a.listen(() => {});
  b.listen(() => void (count += 1));
  const listens = async (): Promise<void> => {
    const before = count;
    await until("hints come", async () => {
      await a.projects.insert({ id: randomUUID(), name: "", createdAt: 1 });
      // One may be from before, and one it gives itself for what it may have missed.
      return count >= before + 3;
    });
  };
  await listens();
  proxy.reset();
  proxy.speak();
  await listens();
  const client = await connect(databaseUrl);
  await client.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen%' or query like 'notify%'",
  );
  await listens();
});

verifies("changes.hint", "a connection that no longer carries a word is given up", async () => {
  const { databaseUrl } = await databases.fresh("postgres");
  const proxy = await SilentProxy.open(databaseUrl!);
  const clock = new HandClock();
  const line = new HintLine(proxy.url, clock);
  onTestFinished(() => line.close());
  const condition = new Condition();
  let count = 0;
  line.listen(() => {
    count += 1;
    condition.notify();
  });
  // It has heard its first word.
  await clock.sets(30_000);
  expect(count).toBe(1);
  proxy.fallSilent();
  clock.advance(30_000);
  clock.advance(5_000);
  proxy.speak();
  clock.advance(1_000);
  await until("it is connected again", () => count === 2, condition);
});

verifies("changes.hint", "a connection that carries no word any more does not hold up its end", async () => {
  const { databaseUrl } = await databases.fresh("postgres");
  const proxy = await SilentProxy.open(databaseUrl!);
  const clock = new HandClock();
  const line = new HintLine(proxy.url, clock);
  line.listen(() => {});
  await clock.sets(30_000);
  proxy.fallSilent();
  await line.close();
});
