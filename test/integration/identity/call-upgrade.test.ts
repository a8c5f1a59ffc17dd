import { describe, expect } from "vitest";
import { uuidBytes } from "../../../src/kit/ids.ts";
import { openStore } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { uuidv7 } from "../../support/ids.ts";
import { makeOldDatabase } from "../../support/old-release.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

describe.each(DATABASE_KINDS)("an upgrade on %s", (kind) => {
  verifies(
    "call.upgrade",
    "keeps accounts and their tokens, which refer to each other as before",
    async () => {
      const database = await databases.empty(kind);
      const createdAt = 1_000;
      const account = {
        name: "x",
        description: null,
        createdAt,
        expiresAt: 9e12,
        revokedAt: null,
        lastUsedAt: 5,
      };
      const hash = Buffer.alloc(32, 7);
      const runId = uuidv7(createdAt);
      await makeOldDatabase(database, "0019-seat-workloads", {
        projects: [{ id: "p-one", name: "one", createdAt }],
        apps: [{ projectId: "p-one", name: "app", createdAt, updatedAt: createdAt }],
        serviceAccounts: ["run", "deploy", "admin"].map((role) => ({
          ...account,
          id: `sa-${role}`,
          projectId: "p-one",
          role,
        })),
        tokens: [{ jtiHash: hash, accountId: "sa-deploy", createdAt, expiresAt: 8e12, revokedAt: 77 }],
        runs: [
          {
            appNumber: 1,
            id: uuidBytes(runId),
            versionId: uuidBytes(runId),
            functionName: "run",
            method: "POST",
            isAsync: 0,
            state: 2,
            attempt: 1,
            createdAt,
            updatedAt: createdAt,
            webhookState: 0,
          },
        ],
      });
      const store = await openStore(database);
      try {
        expect((await store.accounts.list("p-one")).toSorted((a, b) => a.id.localeCompare(b.id))).toEqual(
          ["admin", "deploy", "run"].map((role) => ({
            ...account,
            id: `sa-${role}`,
            projectId: "p-one",
            role,
            callLimits: null,
          })),
        );
        expect(await store.tokens.findByJtiHash(hash)).toMatchObject({
          token: { accountId: "sa-deploy", createdAt, expiresAt: 8e12, revokedAt: 77 },
          account: { id: "sa-deploy", role: "deploy" },
        });
        expect(await store.runs.find({ appNumber: 1, id: runId })).toMatchObject({
          accountId: null,
          user: null,
        });
        const call = {
          ...account,
          id: "sa-call",
          projectId: "p-one",
          role: "call" as const,
          callLimits: "{}",
        };
        const { revokedAt: _, lastUsedAt: __, ...fresh } = call;
        await store.accounts.insert({ account: fresh, token: { jtiHash: Buffer.alloc(32, 8) } });
        // A token belongs to an account that is there.
        const nobody = { ...fresh, id: "sa-two", projectId: "p-none" };
        await expect(
          store.accounts.insert({ account: nobody, token: { jtiHash: Buffer.alloc(32, 9) } }),
        ).rejects.toThrow(/foreign key/i);
      } finally {
        await store.close();
      }
    },
  );
});
