import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { UuidSource } from "../../../src/kit/ids.ts";
import { endRun, type Run } from "../../../src/model/run.ts";
import { type Terms, termsOf, type Wishes } from "../../../src/model/terms.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { idAt, queuedRun, samplePayload } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const NOW = Date.UTC(2026, 0, 2);

const NONE: Wishes = {
  priority: 0,
  delay: null,
  ttlMs: null,
  timeoutMs: null,
  maxAttempts: null,
  tags: [],
  concurrencyKey: null,
  fairnessKey: null,
};

function terms(wishes: Partial<Wishes>): Terms {
  return termsOf({ ...NONE, ...wishes }, NOW);
}

describe.each(DATABASE_KINDS)("runs with terms on %s", (kind) => {
  let store: Store;
  let lastApp = 0;
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
  });
  afterAll(async () => {
    await store.close();
  });

  /** Queued runs of an app of their own, a millisecond apart. */
  async function accepted(asked: readonly (Terms | null)[]): Promise<Run[]> {
    const appNumber = ++lastApp;
    const runs = asked.map((each, i) =>
      queuedRun({
        appNumber,
        id: idAt(NOW + i),
        createdAt: NOW + i,
        terms: each,
        dueAt: each?.notBefore ?? null,
      }),
    );
    await store.runs.accept(runs.map((run) => ({ run, payload: samplePayload(), owner: null })));
    return runs;
  }
  const claim = async (appNumber: number, limit: number): Promise<string[]> => {
    const query = { appNumber, owner: "one", limit, maxBytes: 1_000_000 };
    return (await store.claims.claim(query)).runs.map(({ run }) => run.id);
  };

  verifies("terms.priority", "runs are claimed in the order of their places", async () => {
    const runs = await accepted([
      terms({ priority: -1 }),
      null,
      terms({ priority: 600, tags: ["a"] }),
      terms({ priority: 3600 }),
      null,
    ]);
    const ids = runs.map(({ id }) => id);
    const { appNumber } = runs[0]!;
    expect(await claim(appNumber, 2)).toEqual([ids[3], ids[2]]);
    expect(await claim(appNumber, 5)).toEqual([ids[1], ids[4], ids[0]]);
  });

  verifies(
    "queue.position",
    "a run's position is counted from the front, and estimated far behind",
    async () => {
      const runs = await accepted([null, terms({ priority: 60 }), null, terms({ delay: { ms: 50 } })]);
      const positions = await Promise.all(runs.map((run) => store.claims.position(run)));
      expect(positions).toEqual([2, 1, 3, null]);
      await claim(runs[0]!.appNumber, 1);
      expect(await store.claims.position(runs[0]!)).toBe(1);
      expect(await store.claims.position(runs[1]!)).toBe(null);
      const many = await accepted(Array.from({ length: 3_000 }, () => null));
      for (const at of [0, 1, 998, 999]) expect(await store.claims.position(many[at]!)).toBe(at + 1);
      // Runs that came a millisecond apart.
      for (const at of [1_500, 2_999])
        expect(Math.abs(((await store.claims.position(many[at]!)) ?? 0) - at)).toBeLessThan(10);
    },
  );

  // Ids that come together borrow milliseconds, and a run is accepted some time after it got its id.
  const arrival = fc.record({
    afterMs: fc.constantFrom(0, 0, 0, 1, 7),
    acceptedAfterMs: fc.constantFrom(0, 0, 1, 3),
    priority: fc.constantFrom(null, null, 0, 0.001, -0.5, 600, 600, -600, 3600, -3600),
    dueMs: fc.constantFrom(null, null, null, 5, 600_000, 700_000),
  });

  verifies(
    ["terms.priority", "terms.delay"],
    "runs are claimed in the order of their times less their head starts, and then as they came",
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(arrival, { minLength: 2, maxLength: 40 }),
          fc.integer({ min: 1, max: 9 }),
          fc.boolean(),
          async (arrivals, atOnce, isCrowded) => {
            const appNumber = ++lastApp;
            const ids = new UuidSource();
            let now = NOW;
            const modelled = arrivals.map(({ afterMs, acceptedAfterMs, priority, dueMs }) => {
              now += afterMs;
              if (isCrowded) for (let i = 0; i < 1_500; i++) ids.next(now);
              const id = ids.next(now);
              const createdAt = now + acceptedAfterMs;
              const delay = dueMs === null ? null : { until: NOW + dueMs };
              const isPlain = priority === null && delay === null;
              const asked = isPlain ? null : termsOf({ ...NONE, priority: priority ?? 0, delay }, createdAt);
              const dueAt = asked?.notBefore ?? null;
              const cameAt = Number.parseInt(id.replace("-", "").slice(0, 12), 16);
              const time = (dueAt ?? cameAt) - (priority ?? 0) * 1000;
              return { run: queuedRun({ appNumber, id, createdAt, dueAt, terms: asked }), time };
            });
            const accepted = modelled.map(({ run }) => ({ run, payload: samplePayload(), owner: null }));
            await store.runs.accept(accepted);
            await store.claims.makeDue({ now: NOW + 30 * 86_400_000, limit: 1_000 });
            const claimed: string[] = [];
            while (claimed.length < modelled.length) claimed.push(...(await claim(appNumber, atOnce)));
            const byId = (a: Run, b: Run) => (a.id < b.id ? -1 : 1);
            const expected = modelled.toSorted((a, b) => a.time - b.time || byId(a.run, b.run));
            expect(claimed).toEqual(expected.map(({ run }) => run.id));
          },
        ),
        { numRuns: 30 },
      );
    },
  );

  verifies("terms.durable", "what was asked is read back, also where there is nothing", async () => {
    const asked = terms({ priority: 5.5, delay: { ms: 10 }, ttlMs: 20, timeoutMs: 30, tags: ["é", "b"] });
    const [some, none] = (await accepted([asked, null])) as [Run, Run];
    expect((await store.runs.find(some))?.terms).toEqual(asked);
    expect((await store.runs.find(none))?.terms).toBe(null);
    expect(await claim(some.appNumber, 5)).toEqual([none.id]);
    await store.claims.makeDue({ now: NOW + 10, limit: 10 });
    expect(await claim(some.appNumber, 5)).toEqual([some.id]);
  });

  verifies(
    ["terms.ttl", "terms.timeout"],
    "times that have passed are found once, or again when asked to",
    async () => {
      const [run] = (await accepted([terms({ ttlMs: 1_000, timeoutMs: 2_000 })])) as [Run];
      const mine = async (now: number) =>
        (await store.limits.passed({ now, limit: 100 })).filter(({ id }) => id === run.id);
      expect(await mine(NOW + 999)).toEqual([]);
      const first = await mine(NOW + 1_000);
      expect(first).toEqual([{ appNumber: run.appNumber, id: run.id, at: NOW + 1_000, isOver: false }]);
      expect((await mine(NOW + 2_000)).map(({ at }) => at)).toEqual([NOW + 1_000, NOW + 2_000]);
      const [passed] = first as [(typeof first)[0]];
      // As two services that have seen it do.
      await store.limits.settle([{ ...passed, again: NOW + 5_000 }]);
      await store.limits.settle([{ ...passed, again: NOW + 6_000 }]);
      expect((await mine(NOW + 9_000)).map(({ at }) => at)).toEqual([NOW + 2_000, NOW + 5_000]);
      const fate = { state: "cancelled", statusCode: null, errorCode: null, errorMessage: null } as const;
      await store.claims.endQueued([{ run: endRun(run, fate, NOW), result: null }]);
      const over = await mine(NOW + 9_000);
      expect(over.map(({ isOver }) => isOver)).toEqual([true, true]);
      await Promise.all([1, 2].map(() => store.limits.settle(over.map((one) => ({ ...one, again: null })))));
      expect(await mine(NOW + 9_000)).toEqual([]);
    },
  );

  verifies(
    "terms.tags",
    "runs are listed by their tag, page by page, and their rows go with them",
    async () => {
      const tagged = terms({ tags: ["red"], timeoutMs: 5_000 });
      const runs = await accepted([
        tagged,
        null,
        terms({ tags: ["red", "blue"] }),
        terms({ tags: ["blue"] }),
      ]);
      const { appNumber } = runs[0]!;
      const list = async (tag: string, before?: string) => {
        const page = await store.runs.pageOfApp({ appNumber, limit: 1, tag, ...(before && { before }) });
        return { ids: page.runs.map(({ id }) => id), next: page.next ?? undefined };
      };
      const first = await list("red");
      expect(first.ids).toEqual([runs[2]!.id]);
      expect(await list("red", first.next)).toEqual({ ids: [runs[0]!.id], next: undefined });
      expect((await list("green")).ids).toEqual([]);
    },
  );
});
