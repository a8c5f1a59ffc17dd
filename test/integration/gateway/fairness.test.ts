import { randomUUID } from "node:crypto";
import { beforeAll, expect } from "vitest";
import { account, callAccount, userToken } from "../../support/call-tokens.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { type CallOptions, WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { ASYNC, ended, ledger, letGo, MAIN, ONE, recordOf } from "../async/site.ts";
import { Client } from "../cli/client.ts";

const service = sharedService({ app: { main: MAIN, toml: ONE } }, WITHOUT_WALLS);
const HEADER = "x-millrace-fairness-key";
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});

/** Calls an app whose only slot is in use, in order, then frees the slot; returns the order in which the calls ran. */
async function orderOf(calls: readonly (CallOptions & { readonly name: string })[]): Promise<string[]> {
  // A new one: how fast calls of an app were decides how many are handed over before there is a free slot.
  const app = await service().own({ main: MAIN, toml: ONE });
  const slots = service().apps.get(app)!.pool.slots;
  const first = service().call(app, {}, { functionName: "hold" });
  await until("the slot is in use", () => ledger(service(), app).length === 1);
  const answers: Promise<{ status: number }>[] = [];
  for (const { name, ...options } of calls) {
    answers.push(service().call(app, { n: name }, options));
    await until("it waits", () => slots.waiting === answers.length);
  }
  letGo(service(), app);
  for (const { status } of await Promise.all([first, ...answers])) expect(status).toBe(200);
  return ledger(service(), app).slice(1);
}

const many = (count: number, name: string, options: CallOptions) =>
  Array.from({ length: count }, () => ({ name, ...options }));

verifies("fair.sync-turns", "a single call does not wait for all of another account's", async () => {
  const [a, b] = [await account(service(), "run"), await account(service(), "run")];
  const calls = [...many(5, "a", { token: a.token }), ...many(1, "b", { token: b.token })];
  expect(await orderOf(calls)).toEqual(["a", "b", "a", "a", "a", "a"]);
});

verifies("fair.users", "each end user of an account has a line of their own", async () => {
  const page = await callAccount(service(), { apps: Array.from({ length: 20 }, (_, n) => `own-${n}`) });
  const ada = { token: await userToken(service(), page, "ada") };
  const bob = { token: await userToken(service(), page, "bob") };
  expect(await orderOf([...many(3, "ada", ada), ...many(2, "bob", bob)])).toEqual([
    "ada",
    "bob",
    "ada",
    "bob",
    "ada",
  ]);
});

verifies("fair.weight", "an account of a higher weight has more turns, from the change on", async () => {
  const [a, b] = [await account(service(), "run"), await account(service(), "run")];
  const calls = [...many(4, "a", { token: a.token }), ...many(4, "b", { token: b.token })];
  expect((await orderOf(calls)).join("")).toBe("abababab");
  const { status } = await site.call("updateServiceAccount", { id: b.accountId }, { body: { weight: 2 } });
  expect(status).toBe(200);
  expect((await orderOf(calls)).join("")).toBe("babbabaa");
});

verifies("fair.header", "a call may name the line in which it waits", async () => {
  const { token } = await account(service(), "run");
  const key = (name: string) => ({ token, headers: { [HEADER]: name } });
  const calls = [...many(3, "x", key("x")), ...many(2, "y", key("y"))];
  expect((await orderOf(calls)).join("")).toBe("xyxyx");
});

verifies(
  "fair.header-refused",
  "a token that may be public may not, nor may a call without a token",
  async () => {
    const page = await callAccount(service(), { apps: ["app"] });
    const options = { token: page.token, headers: { [HEADER]: "x" } };
    for (const suffix of ["", "?async=true"]) {
      const refused = await service().call("app", {}, { ...options, suffix });
      expect([refused.status, refused.json.code]).toEqual([403, "forbidden"]);
      expect(refused.json.message).toContain("X-Millrace-Fairness-Key may be set only with");
    }
    const open = await service().own({ main: MAIN, toml: "[deployment]\ndisable_auth = true\n" });
    expect((await service().call(open, {}, { ...options, token: null })).status).toBe(403);
    expect((await service().call(open, {}, { token: null })).status).toBe(200);
  },
);

verifies("fair.header-bounds", "a name has 1 to 128 visible characters", async () => {
  const call = async (name: string) =>
    (await service().call("app", {}, { headers: { [HEADER]: name } })).status;
  expect(await call("x".repeat(128))).toBe(200);
  const another = `sa-${randomUUID()}`;
  for (const name of ["", "x".repeat(129), "a b", "é", another, `${another}/user`])
    expect([name, await call(name)]).toEqual([name, 400]);
});

verifies("fair.record", "the record of an async run has the keys that its call gave", async () => {
  const suffix = `${ASYNC.suffix}&concurrency_key=k%201`;
  const { json } = await service().call("app", {}, { suffix, headers: { [HEADER]: "line-7" } });
  expect(await ended(service(), "app", json.run_id)).toMatchObject({
    concurrencyKey: "k 1",
    fairnessKey: "line-7",
  });
  // Without them, nothing is stored that the account does not say.
  const plain = await service().call("app", {}, ASYNC);
  const record = await recordOf(service(), "app", plain.json.run_id);
  expect(record).not.toHaveProperty("fairnessKey");
  expect(record).not.toHaveProperty("concurrencyKey");
  // An end user has a line of their own, whose name does not tell who they are.
  const page = await callAccount(service(), { apps: ["app"] });
  const token = await userToken(service(), page, "ada@example.com");
  const theirs = await service().call("app", {}, { ...ASYNC, token });
  const { fairnessKey } = await recordOf(service(), "app", theirs.json.run_id);
  expect(fairnessKey).toMatch(new RegExp(`^${page.accountId}/[\\w-]{43}$`));
});

verifies("fair.cli", "the command line can give both keys, and change a weight", async () => {
  const client = new Client(service());
  const id = (
    await client.ok("call", "app", "--async", "--concurrency-key", "k", "--fairness-key", "f")
  ).trim();
  expect(await client.json("runs", "get", "app", id)).toMatchObject({
    concurrencyKey: "k",
    fairnessKey: "f",
  });
  const name = `weighed-${randomUUID()}`;
  await client.run("service-accounts", "create", name, "--weight", "7");
  const weightOf = async () => {
    const accounts: { name: string; weight: number }[] = await client.json("service-accounts", "list");
    return accounts.find((each) => each.name === name)?.weight;
  };
  expect(await weightOf()).toBe(7);
  expect(await client.ok("service-accounts", "change", name, "--weight", "3")).toContain("Its weight is 3.");
  expect(await weightOf()).toBe(3);
  expect((await client.run("service-accounts", "change", name)).code).toBe(2);
});

verifies("fair.weight", "async runs take turns by weight too", async () => {
  const [a, b] = [await account(service(), "run"), await account(service(), "run")];
  await site.call("updateServiceAccount", { id: b.accountId }, { body: { weight: 2 } });
  const app = await service().own({ main: MAIN, toml: ONE });
  const queue = async (verb: string) =>
    await site.call(`${verb}Queue`, { app_id: `${site.projectId}-${app}` });
  await queue("pause");
  for (const [name, { token }] of Object.entries({ a, b })) {
    for (const call of many(4, name, { token }))
      expect((await service().call(app, { n: call.name }, { ...ASYNC, ...call })).status).toBe(202);
  }
  await queue("resume");
  await until("all have run", () => ledger(service(), app).length === 8);
  // Whose turn is first is not said.
  expect(["bbabbaaa", "abbabbaa"]).toContain(ledger(service(), app).join(""));
});
