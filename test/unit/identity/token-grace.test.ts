import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setImmediate } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { KeyRing } from "../../../src/identity/key-ring.ts";
import { Tokens } from "../../../src/identity/tokens.ts";
import { Condition } from "../../../src/kit/concurrency.ts";
import { Seal, loadMasterKey } from "../../../src/kit/seal.ts";
import { AppError } from "../../../src/model/errors.ts";
import type { Store } from "../../../src/store/store.ts";
import { HandClock } from "../../support/clocks.ts";
import { hangFiles } from "../../support/hung-files.ts";
import { openOneThreadStore } from "../../support/one-thread-store.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const GRACE_MS = 300_000;
const away = (): AppError => new AppError("storage_unavailable");

/** Tokens on a database that answers, refuses or says nothing, as the test wants it, with a token seen before. */
async function scratch() {
  const dataDir = mkdtempSync(path.join(tmpdir(), "millrace-grace-"));
  const store = await openOneThreadStore({ databaseUrl: null, dataDir });
  onTestFinished(async () => {
    await store.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  const clock = new HandClock();
  await store.projects.insert({ id: "p-one", name: "one", createdAt: clock.now() });
  const keys = await KeyRing.open(store, new Seal(loadMasterKey(path.join(dataDir, "master.key"))), clock);
  const database = { mode: "answers" as "answers" | "refuses" | "silent", asked: 0, answered: 0 };
  const questions = new Condition();
  const asks = async (count: number): Promise<void> =>
    await until(`${count} questions`, () => database.asked >= count, questions);
  let end = Promise.withResolvers<void>();
  const findByJtiHash: Store["tokens"]["findByJtiHash"] = async (hash) => {
    database.asked += 1;
    questions.notify();
    if (database.mode === "refuses") throw away();
    if (database.mode === "silent") await end.promise;
    const found = await store.tokens.findByJtiHash(hash);
    database.answered += 1;
    return found;
  };
  /** What waits for a silent database is answered, or told that nothing comes. */
  const endSilence = (failure?: AppError): void => {
    const { resolve, reject } = end;
    end = Promise.withResolvers();
    if (failure) reject(failure);
    else resolve();
  };
  const tokens = new Tokens({
    store: { ...store, tokens: { findByJtiHash } },
    keys,
    instanceId: "instance",
    clock,
    graceMs: GRACE_MS,
  });
  const issue = async () =>
    await tokens.issue({ projectId: "p-one", name: "x", role: "run", expiresAt: clock.now() + 3_600_000 });
  const { token, accountId } = await issue();
  const held = await tokens.verify(token);
  const revokeElsewhere = async () =>
    await store.accounts.revoke({ id: accountId, projectId: "p-one", now: clock.now() });
  const account = { token, accountId, held, revokeElsewhere };
  return { store, clock, tokens, ...account, database, asks, endSilence, issue };
}

/** Lets promises go on. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await setImmediate();
}

verifies(
  "silence.grace",
  "a token in use stays good without a wait while the database says nothing, and no longer than its grace",
  async () => {
    const { clock, tokens, token, held, database, endSilence, asks } = await scratch();
    const judgedAt = clock.monotonic();
    database.mode = "silent";
    clock.advance(2_501);
    // Each use is judged without a promise, so none of them waits.
    expect(tokens.isGood(held)).toBe(true);
    await asks(2);
    for (let second = 0; second < 6; second++) {
      clock.advance(1_000);
      expect(tokens.isGood(held)).toBe(true);
    }
    // A store gives up what it waits for, and from then on refuses at once.
    database.mode = "refuses";
    endSilence(away());
    await turns();
    expect(database.asked).toBe(2);
    // In passing it is asked about again, once a second at most.
    for (let asked = 3; clock.monotonic() - judgedAt + 2_000 <= GRACE_MS; asked++) {
      clock.advance(2_000);
      for (let use = 0; use < 3; use++) expect(tokens.isGood(held)).toBe(true);
      await asks(asked);
      await turns();
      expect([tokens.isGood(held), database.asked]).toEqual([true, asked]);
    }
    clock.advance(1_000);
    clock.advance(1_000);
    expect(tokens.isGood(held)).toBe(false);
    await expect(tokens.verify(token)).rejects.toMatchObject({ code: "storage_unavailable" });
    database.mode = "answers";
    expect(await tokens.verify(token)).toBe(held);
    expect(tokens.isGood(held)).toBe(true);
  },
);

verifies(
  "silence.grace",
  "a token that was not in use waits 2.5 s for a database that says nothing, then counts",
  async () => {
    const { clock, tokens, token, held, database, asks, endSilence, issue } = await scratch();
    const unseen = await issue();
    database.mode = "silent";
    clock.advance(60_000);
    expect(tokens.isGood(held)).toBe(false);
    const verifying = tokens.verify(token);
    await clock.sets(2_500);
    clock.advance(2_500);
    expect(await verifying).toBe(held);
    clock.advance(1);
    expect(tokens.isGood(held)).toBe(true);
    const refused = tokens.verify(unseen.token).catch((error: unknown) => error);
    await asks(3);
    endSilence(away());
    expect(await refused).toMatchObject({ code: "storage_unavailable" });
  },
);

/** An outage in which the token is asked about in vain, and revoked by another service; then it is over. */
async function revokeInOutage({
  clock,
  tokens,
  held,
  database,
  asks,
  revokeElsewhere,
}: Awaited<ReturnType<typeof scratch>>): Promise<void> {
  database.mode = "refuses";
  clock.advance(4_000);
  expect(tokens.isGood(held)).toBe(true);
  await asks(2);
  await turns();
  await revokeElsewhere();
  database.mode = "answers";
}

verifies(
  "silence.grace",
  "one revoked elsewhere stops as soon as the database can be asked, and never counts again",
  async () => {
    const site = await scratch();
    const { clock, tokens, token, held, database } = site;
    await revokeInOutage(site);
    clock.advance(1_500);
    // It was asked about in vain a moment ago; the question that goes out now is answered.
    expect(tokens.isGood(held)).toBe(true);
    await until("the database has answered", () => database.answered === 2);
    await turns();
    expect([tokens.isGood(held), tokens.recall(token)]).toEqual([false, undefined]);
    database.mode = "refuses";
    await expect(tokens.verify(token)).rejects.toMatchObject({ code: "storage_unavailable" });
    expect(tokens.isGood(held)).toBe(false);
    database.mode = "answers";
    await expect(tokens.verify(token)).rejects.toMatchObject({ code: "unauthorized" });
  },
);

verifies(
  "silence.disk",
  "a disk that hangs is not the database's silence: tokens are made and judged, and a revoked one stops",
  async () => {
    const { clock, tokens, token, held, database, revokeElsewhere, issue } = await scratch();
    hangFiles();
    await revokeElsewhere();
    clock.advance(5_001);
    expect(tokens.isGood(held)).toBe(false);
    const verifying = tokens.verify(token).catch((error: unknown) => error);
    const making = issue();
    await turns();
    // Here and not by a deadline: nothing of it may have to wait for a thread.
    expect(database.answered).toBe(2);
    expect(await verifying).toMatchObject({ code: "unauthorized" });
    const unseen = await making;
    expect((await tokens.verify(unseen.token)).principal.projectId).toBe("p-one");
  },
);

test("an outage that is over is no reason to trust a token: a revoked one stops within 5 s", async () => {
  const site = await scratch();
  const { clock, tokens, token, held } = site;
  await revokeInOutage(site);
  // Nobody used it, so nobody asked since.
  clock.advance(5_001);
  expect(tokens.isGood(held)).toBe(false);
  await expect(tokens.verify(token)).rejects.toMatchObject({ code: "unauthorized" });
});

test("a token that was judged before it was revoked here is judged again", async () => {
  const { tokens, database, asks, endSilence, issue } = await scratch();
  const { token, accountId } = await issue();
  const judged = database.answered;
  database.mode = "silent";
  const verifying = tokens.verify(token).catch((error: unknown) => error);
  await asks(judged + 1);
  await tokens.revoke("p-one", accountId);
  database.mode = "answers";
  endSilence();
  expect(await verifying).toMatchObject({ code: "unauthorized" });
});

test("a revocation of which nobody knows whether it was done counts, one that was refused does not", async () => {
  const { store, tokens, accountId, held } = await scratch();
  const revoke = store.accounts.revoke;
  const accounts = store.accounts as { revoke: Store["accounts"]["revoke"] };
  accounts.revoke = () => Promise.reject(away());
  await expect(tokens.revoke("p-one", accountId)).rejects.toMatchObject({ code: "storage_unavailable" });
  expect(tokens.isGood(held)).toBe(true);
  accounts.revoke = () => Promise.reject(new AppError("in_doubt"));
  await expect(tokens.revoke("p-one", accountId)).rejects.toMatchObject({ code: "in_doubt" });
  expect(tokens.isGood(held)).toBe(false);
  accounts.revoke = revoke;
});
