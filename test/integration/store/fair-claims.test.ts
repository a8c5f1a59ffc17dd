import { afterAll, beforeAll, describe, expect } from "vitest";
import { UuidSource } from "../../../src/kit/ids.ts";
import type { Run } from "../../../src/model/run.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { queuedRun, samplePayload } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const NOW = Date.UTC(2026, 0, 2);
const MANY = 100_000;
const BATCH = 2_000;

describe.each(DATABASE_KINDS)("a long queue on %s", (kind) => {
  let store: Store;
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
  });
  afterAll(async () => {
    await store.close();
  });

  verifies("queue.fair", "100,000 runs of one caller do not delay another's single run", async () => {
    const ids = new UuidSource();
    const of = (accountId: string): Run =>
      queuedRun({ appNumber: 1, id: ids.next(NOW), createdAt: NOW, accountId });
    const accept = async (runs: readonly Run[]): Promise<void> =>
      await store.runs.accept(runs.map((run) => ({ run, payload: samplePayload(), owner: null })));
    for (let n = 0; n < MANY; n += BATCH) await accept(Array.from({ length: BATCH }, () => of("busy")));
    const query = { appNumber: 1, owner: "one", maxBytes: 1_000_000 };
    const first = await store.claims.claim({ ...query, limit: 2 });
    expect(first.runs.map(({ run }) => run.accountId)).toEqual(["busy", "busy"]);
    const single = of("quiet");
    await accept([single]);
    const { turn } = first;
    expect(await store.claims.position({ ...single, turn })).toBe(1);
    const second = await store.claims.claim({ ...query, limit: 1, turn });
    expect(second.runs.map(({ run }) => run.id)).toEqual([single.id]);
    const third = await store.claims.claim({ ...query, limit: 3, turn: second.turn });
    expect(third.runs.map(({ run }) => run.accountId)).toEqual(["busy", "busy", "busy"]);
  });
});
