import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { uuidv7 } from "../../support/ids.ts";
import { RUN_STATES } from "../../../src/model/run.ts";
import { packEnded } from "../../../src/store/runs/ended-runs.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { sampleEnd, sampleRun } from "../../support/sample-run.ts";
import { NOW, sampleStore } from "../../support/sample-store.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

describe.each(DATABASE_KINDS)("operations on %s", (kind) => {
  const { store, newProject, newApp } = sampleStore(databases, kind);

  test("the store says which database it is", () => {
    expect(store().kind).toBe(kind);
  });

  test("a project is found as it was stored", async () => {
    const project = { id: "p-stored", name: "Zoë's 'project' \\ \"x\"", createdAt: NOW };
    expect(await store().projects.insert(project)).toBe(true);
    expect(await store().projects.find("p-stored")).toEqual(project);
    expect(await store().projects.find("p-other")).toBeNull();
  });

  test("a project's id is given once", async () => {
    const id = await newProject();
    expect(await store().projects.insert({ id, name: "second", createdAt: NOW })).toBe(false);
    expect((await store().projects.find(id))?.name).toBe("test");
  });

  test("an app is made once for each name, however many ask at once", async () => {
    const projectId = await newProject();
    const asked = Array.from({ length: 8 }, () =>
      store().apps.insertOrFind({ projectId, name: "hello", createdAt: NOW }),
    );
    const made = await Promise.all(asked);
    expect(new Set(made.map((app) => app.number)).size).toBe(1);
    const app = await store().apps.find({ projectId, name: "hello" });
    expect(app).toEqual({
      number: made[0]?.number,
      projectId,
      name: "hello",
      currentVersionId: null,
      createdAt: NOW,
      updatedAt: NOW,
    });
  });

  test("apps are listed by project, and all together", async () => {
    const projectId = await newProject();
    const b = await store().apps.insertOrFind({ projectId, name: "b", createdAt: NOW });
    const a = await store().apps.insertOrFind({ projectId, name: "a", createdAt: NOW });
    const other = await newApp();
    expect(await store().apps.list(projectId)).toEqual([a, b]);
    const all = (await store().apps.listAll()).map((app) => app.number);
    expect(all).toEqual(expect.arrayContaining([a.number, b.number, other.number]));
  });

  test("a deleted app is gone, and its name begins a new one", async () => {
    const { number, projectId } = await newApp();
    expect(await store().apps.markDeleted({ appNumber: number, now: NOW + 1 })).toBe(true);
    expect(await store().apps.markDeleted({ appNumber: number, now: NOW + 2 })).toBe(false);
    expect(await store().apps.find({ projectId, name: "hello" })).toBeNull();
    expect(await store().apps.list(projectId)).toEqual([]);
    const again = await store().apps.insertOrFind({ projectId, name: "hello", createdAt: NOW + 3 });
    expect(again.number).toBeGreaterThan(number);
  });

  verifies(
    "store.both",
    "runs are found exactly as they were stored, with every field set and with every field empty",
    async () => {
      const { number: appNumber } = await newApp();
      const full = sampleRun({
        appNumber,
        isAsync: true,
        state: "failure",
        statusCode: 500,
        attempt: 2,
        webhookEndpoint: "https://example.test/hook?a=1,2",
        webhookState: "delivered",
        errorCode: "app_error",
        errorMessage: "ValueError: {\"a\": \\ 'b', NULL}\n\t❄",
        runMs: 0.1 + 0.2,
        isWebSocket: true,
        requestBytes: 2 ** 40,
        responseBytes: 0,
        batchSize: 1000,
        batchReason: "drain",
      });
      const empty = sampleRun({
        appNumber,
        state: "cancelled",
        statusCode: null,
        startedAt: null,
        completedAt: null,
        replicaId: null,
        replicaStartedAt: null,
        ip: null,
        queueMs: null,
        runMs: null,
        responseMs: null,
      });
      await store().runs.insertFinished([packEnded([sampleEnd(full), sampleEnd(empty)])]);
      expect(await store().runs.find({ appNumber, id: full.id })).toEqual(full);
      expect(await store().runs.find({ appNumber, id: empty.id })).toEqual(empty);
      expect(await store().runs.find({ appNumber: appNumber + 1, id: full.id })).toBeNull();
      expect(await store().runs.find({ appNumber, id: uuidv7(NOW) })).toBeNull();
    },
  );

  test("a stored run stays as it is when it is stored again", async () => {
    const { number: appNumber } = await newApp();
    const run = sampleRun({ appNumber });
    await store().runs.insertFinished([packEnded([sampleEnd(run)])]);
    const beside = sampleRun({ appNumber });
    await store().runs.insertFinished([
      packEnded([sampleEnd({ ...run, state: "failure", statusCode: 500 }), sampleEnd(beside)]),
    ]);
    expect(await store().runs.find({ appNumber, id: run.id })).toEqual(run);
    expect(await store().runs.find({ appNumber, id: beside.id })).toEqual(beside);
    await store().runs.insertFinished([packEnded([])]);
    expect(await store().runs.count({ appNumber })).toBe(2);
  });

  test("an error message with a NUL or half a surrogate pair is stored readably", async () => {
    const { number: appNumber } = await newApp();
    const run = sampleRun({ appNumber, errorMessage: "a\0b\uD800c" });
    await store().runs.insertFinished([packEnded([sampleEnd(run)])]);
    expect((await store().runs.find({ appNumber, id: run.id }))?.errorMessage).toBe("a\uFFFDb\uFFFDc");
  });

  test("runs are listed newest first, page by page, and by state", async () => {
    const { number: appNumber } = await newApp();
    const stored = Array.from({ length: 30 }, (_, i) =>
      sampleRun({ appNumber, state: RUN_STATES[i % 5]!, isAsync: i % 2 === 1 }),
    );
    await store().runs.insertFinished([
      packEnded([...stored, sampleRun({ appNumber: appNumber + 1_000 })].map((run) => sampleEnd(run))),
    ]);
    const newestFirst = stored.toReversed();

    const page = await store().runs.list({ appNumber, limit: 10 });
    expect(page).toEqual(newestFirst.slice(0, 10));
    const older = await store().runs.list({ appNumber, limit: 100, before: page.at(-1)!.id });
    expect(older).toEqual(newestFirst.slice(10));

    expect(await store().runs.list({ appNumber, limit: 100, asyncOnly: true })).toEqual(
      newestFirst.filter((run) => run.isAsync),
    );
    for (const state of RUN_STATES) {
      expect(await store().runs.list({ appNumber, limit: 100, state })).toEqual(
        newestFirst.filter((run) => run.state === state),
      );
    }
    expect(await store().runs.list({ appNumber, limit: 100, state: "failure", asyncOnly: true })).toEqual(
      newestFirst.filter((run) => run.state === "failure" && run.isAsync),
    );
    expect(await store().runs.count({ appNumber })).toBe(30);
    expect(await store().runs.count({})).toBeGreaterThan(30);
  });

  test("ten thousand runs go in at once", async () => {
    const { number: appNumber } = await newApp();
    await store().runs.insertFinished([
      packEnded(Array.from({ length: 10_000 }, () => sampleEnd(sampleRun({ appNumber })))),
    ]);
    expect(await store().runs.count({ appNumber })).toBe(10_000);
  });

  test("an account is known by its token's hash, and the token by the account's rights", async () => {
    const projectId = await newProject();
    const account = {
      id: `sa-${projectId}`,
      projectId,
      name: "ci",
      description: null,
      role: "deploy" as const,
      callLimits: null,
      createdAt: NOW,
      expiresAt: NOW + 1_000,
    };
    const jtiHash = hash("first");
    await store().accounts.insert({ account, token: { jtiHash } });
    const stored = { ...account, weight: 1, quotas: null, revokedAt: null, lastUsedAt: null };
    const known = await store().tokens.findByJtiHash(jtiHash);
    expect(known?.account).toEqual(stored);
    expect(known?.token).toEqual({
      jtiHash,
      accountId: account.id,
      createdAt: NOW,
      expiresAt: NOW + 1_000,
      revokedAt: null,
    });
    expect(await store().tokens.findByJtiHash(hash("other"))).toBeNull();
    expect(await store().accounts.list(projectId)).toEqual([stored]);
    expect(await store().accounts.list("p-none")).toEqual([]);
  });

  test("an account without its token is not stored", async () => {
    const projectId = await newProject();
    const make = (id: string) => ({
      account: {
        id,
        projectId,
        name: id,
        description: "",
        role: "run" as const,
        callLimits: null,
        createdAt: NOW,
        expiresAt: NOW,
      },
      token: { jtiHash: hash("taken") },
    });
    await store().accounts.insert(make("sa-one"));
    await expect(store().accounts.insert(make("sa-two"))).rejects.toThrow(/unique/i);
    expect((await store().accounts.list(projectId)).map(({ id }) => id)).toEqual(["sa-one"]);
  });

  test("an account is revoked once, and only by its own project", async () => {
    const projectId = await newProject();
    const id = `sa-${projectId}`;
    const account = {
      id,
      projectId,
      name: "x",
      description: null,
      role: "admin" as const,
      callLimits: null,
      createdAt: NOW,
      expiresAt: NOW,
    };
    await store().accounts.insert({ account, token: { jtiHash: hash(id) } });
    expect(await store().accounts.revoke({ id, projectId: "p-other", now: NOW })).toBe(false);
    expect(await store().accounts.revoke({ id, projectId, now: NOW + 5 })).toBe(true);
    expect(await store().accounts.revoke({ id, projectId, now: NOW + 6 })).toBe(false);
    await store().accounts.touchLastUsed({ id, usedAt: NOW + 8 });
    await store().accounts.touchLastUsed({ id, usedAt: NOW + 7 });
    const known = await store().tokens.findByJtiHash(hash(id));
    expect(known?.account).toMatchObject({ revokedAt: NOW + 5, lastUsedAt: NOW + 8 });
  });

  test("signing keys are listed newest first, bytes as they were", async () => {
    const sealedPrivate = Buffer.from([0, 255, 1, 254]);
    for (const [i, id] of ["k-old", "k-new"].entries()) {
      await store().signingKeys.insert({
        id,
        sealedPrivate,
        publicJwk: `{"kid":"${id}"}`,
        createdAt: NOW + i,
      });
    }
    const keys = await store().signingKeys.listActive();
    expect(keys.map(({ id }) => id)).toEqual(["k-new", "k-old"]);
    expect(Buffer.from(keys[0]!.sealedPrivate)).toEqual(sealedPrivate);
    expect(keys[0]).toMatchObject({ publicJwk: '{"kid":"k-new"}', createdAt: NOW + 1, retiredAt: null });
  });

  test("of many values set at once for one key a single one stands, and every caller is told it", async () => {
    expect(await store().meta.get("instance_id")).toBeNull();
    const told = await Promise.all(
      Array.from({ length: 8 }, (_, i) => store().meta.setIfAbsent({ key: "instance_id", value: `v${i}` })),
    );
    expect(new Set(told).size).toBe(1);
    expect(await store().meta.get("instance_id")).toBe(told[0]);
  });
});

function hash(text: string): Uint8Array {
  return new Uint8Array(createHash("sha256").update(text).digest());
}
