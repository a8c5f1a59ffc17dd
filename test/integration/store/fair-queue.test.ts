import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { UuidSource } from "../../../src/kit/ids.ts";
import type { QueueConfig } from "../../../src/model/app-config.ts";
import { endRun, type Run } from "../../../src/model/run.ts";
import { termsOf } from "../../../src/model/terms.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { DATABASE_KINDS, testDatabases } from "../../support/databases.ts";
import { ModelQueue, type ModelRun } from "../../support/model-queue.ts";
import { queuedRun, samplePayload } from "../../support/sample-run.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
const NOW = Date.UTC(2026, 0, 2);
const CANCELLED = { state: "cancelled", statusCode: null, errorCode: null, errorMessage: null } as const;
const SUCCESS = { ...CANCELLED, state: "success", statusCode: 200 } as const;
const LINES = [null, "a", "b", "c", "d"];

const line = fc.constantFrom(...LINES);
const accept = fc.record({
  kind: fc.constant("accept" as const),
  line,
  count: fc.integer({ min: 1, max: 12 }),
  priority: fc.constantFrom(0, 0, 0, 0.001, 600, -600),
  delayMs: fc.constantFrom(null, null, null, 5, 40),
  key: fc.constantFrom(null, "x", "y"),
});
const claim = fc.record({ kind: fc.constant("claim" as const), limit: fc.integer({ min: 1, max: 9 }) });
const end = fc.record({
  kind: fc.constantFrom("finish" as const, "retry" as const, "later" as const, "cancel" as const),
  which: fc.nat(),
});
const other = fc.record({ kind: fc.constantFrom("recover" as const, "move" as const, "wait" as const) });
const step = fc.oneof(
  { weight: 3, arbitrary: accept },
  { weight: 3, arbitrary: claim },
  { weight: 2, arbitrary: end },
  { weight: 1, arbitrary: other },
);
const history = fc.array(step, { minLength: 5, maxLength: 25, size: "max" });
type Step = typeof history extends fc.Arbitrary<(infer One)[]> ? One : never;
const limit = fc.constantFrom(null, 1, 2, 3);
const limits = fc.record({
  concurrencyLimit: limit,
  concurrencyKeyLimit: limit,
  rateLimit: fc.constantFrom(null, null, { count: 3, periodSeconds: 1 }),
  concurrencyKeyRateLimit: fc.constantFrom(null, null, { count: 2, periodSeconds: 1 }),
});

describe.each(DATABASE_KINDS)("the queue on %s", (kind) => {
  let store: Store;
  let lastApp = 0;
  beforeAll(async () => {
    store = await openStore(await databases.fresh(kind));
  });
  afterAll(async () => {
    await store.close();
  });

  /** An app of its own, whose every change is made in the store and in the model. */
  class Both {
    readonly appNumber = ++lastApp;
    readonly model: ModelQueue;
    readonly #ids = new UuidSource();
    readonly #records = new Map<string, Run>();
    readonly #queue: QueueConfig | undefined;
    #turn: Awaited<ReturnType<Store["claims"]["claim"]>>["turn"] = null;
    #now = NOW;
    #owner = "first";

    constructor(weights: Readonly<Record<string, number>>, queue?: QueueConfig) {
      this.model = new ModelQueue(weights, queue);
      this.#queue = queue;
    }

    async accept(one: Parameters<typeof this.run>[0] & { readonly count: number }): Promise<void> {
      const runs = Array.from({ length: one.count }, () => this.run(one));
      for (const { modelled } of runs) this.model.accept(modelled);
      const payload = samplePayload();
      await store.runs.accept(
        runs.map(({ run, modelled }) => ({ run, payload, owner: null, isParked: modelled.due === "parked" })),
      );
      if (one.key !== null) await this.admit([one.key]);
    }

    run(one: { line: string | null; priority: number; delayMs: number | null; key: string | null }): {
      run: Run;
      modelled: ModelRun;
    } {
      const id = this.#ids.next(this.#now);
      const dueAt = one.delayMs === null ? null : this.#now + one.delayMs;
      const wishes = { priority: one.priority, delay: dueAt === null ? null : { until: dueAt } };
      const rest = { ttlMs: null, timeoutMs: null, maxAttempts: null, tags: [] };
      const keys = { concurrencyKey: one.key, fairnessKey: one.line };
      const terms = termsOf({ ...wishes, ...rest, ...keys }, this.#now);
      const { appNumber } = this;
      const run = queuedRun({ appNumber, id, createdAt: this.#now, dueAt, terms, accountId: null });
      this.#records.set(id, run);
      const cameAt = Number.parseInt(id.replace("-", "").slice(0, 12), 16);
      const time = (dueAt ?? cameAt) - one.priority * 1000;
      const due = dueAt ?? (one.key !== null && this.model.hasKeyLimits ? "parked" : null);
      const modelled = { id, line: one.line ?? "", key: one.key, time, state: "queued", due } as const;
      return { run, modelled: { ...modelled, interruptions: 0, attempt: 1, fence: 0 } };
    }

    /** Claims runs; returns how many, after they were compared. */
    async claim(most: number): Promise<number> {
      const { weights } = this.model;
      const query = { appNumber: this.appNumber, owner: this.#owner, limit: most, maxBytes: 1_000_000 };
      const limited = this.#queue && { queue: this.#queue, now: this.#now };
      const claimed = await store.claims.claim({ ...query, turn: this.#turn, weights, ...limited });
      this.#turn = claimed.turn;
      const expected = this.model.claim(most, claimed.runs.length, this.#now);
      expect(claimed.runs.map(({ run }) => run.id)).toEqual(expected.ids);
      expect({ keys: claimed.keys.toSorted(), isHeld: claimed.held !== null }).toEqual({
        keys: expected.keys.toSorted(),
        isHeld: expected.isHeld,
      });
      // Fewer than are wanted only where the next claim gets the rest.
      if (this.model.nextLine() !== null && !expected.isHeld && expected.ids.length < most)
        expect(claimed.hasMore).toBe(true);
      await this.admit(claimed.keys);
      return claimed.runs.length;
    }

    async end(run: ModelRun, how: "finish" | "retry" | "later" | "cancel"): Promise<void> {
      const { appNumber } = this;
      const { id, fence, attempt } = run;
      const claim = { appNumber, id, fence, owner: this.#owner };
      const record = this.#records.get(id)!;
      if (how === "cancel") {
        await store.claims.endQueued([{ run: endRun(record, CANCELLED, this.#now), result: null }]);
      } else if (how === "finish") {
        const ended = { run: endRun(record, SUCCESS, this.#now), result: null, part: null, delivery: null };
        await store.claims.finish([{ ...claim, ...ended }]);
      } else {
        const dueAt = this.#now + 20;
        const released = { ...claim, isInterruption: false, attempt: attempt + 1 };
        await store.claims.release([{ ...released, ...(how === "later" && { dueAt }) }]);
      }
      this.model.end(run, how, this.#now + 20);
      if (run.key !== null) await this.admit([run.key]);
    }

    async admit(keys: readonly string[]): Promise<void> {
      if (keys.length === 0 || !this.model.hasKeyLimits) return;
      const asked = keys.map((key) => ({
        appNumber: this.appNumber,
        key,
        queue: this.#queue,
        now: this.#now,
      }));
      const admitted = await store.keyLines.admit(asked);
      expect(admitted.map(({ count, nextAt }) => ({ count, nextAt }))).toEqual(
        keys.map((key) => this.model.admit(key, this.#now)),
      );
    }

    /** Every claimer has died, and the next one begins anew. */
    async recover(): Promise<void> {
      this.#owner = this.#owner === "first" ? "second" : "first";
      await store.claims.recover({ owner: this.#owner, isAlone: true });
      this.model.recover();
      this.move();
    }

    move(): void {
      this.#turn = null;
      this.model.turn = null;
    }

    async wait(ms: number): Promise<void> {
      this.#now += ms;
      await store.claims.makeDue({ now: this.#now, limit: 1_000 });
      this.model.makeDue(this.#now);
    }

    async positions(): Promise<void> {
      const { weights } = this.model;
      const { appNumber } = this;
      const turns = this.model.turns();
      for (const [i, id] of turns.entries())
        expect(await store.claims.position({ appNumber, id, turn: this.#turn, weights })).toBe(i + 1);
    }

    async apply(step: Step, most: number): Promise<void> {
      switch (step.kind) {
        case "accept":
          // With limits, few runs: they begin one by one.
          return await this.accept(
            most === 1 ? { ...step, count: Math.min(step.count, 3) } : { ...step, key: null },
          );
        case "claim":
          await this.claim(Math.min(most, step.limit));
          return await this.positions();
        case "recover":
          return await this.recover();
        case "move":
          return this.move();
        case "wait":
          return await this.wait(25);
        default: {
          const runs = this.model.all(step.kind === "cancel" ? "queued" : "running");
          const run = runs[step.which % Math.max(1, runs.length)];
          if (run) await this.end(run, step.kind);
        }
      }
    }
  }

  test("parked runs are found that only a delayed run could admit, or none, as the app limits no keys", async () => {
    const none = { concurrencyLimit: null, rateLimit: null, concurrencyKeyRateLimit: null, maxBacklog: null };
    const queue = { ...none, concurrencyKeyLimit: 1 };
    const both = new Both({}, queue);
    const accept = async (key: string, delayMs: number | null, isParked: boolean): Promise<void> => {
      const { run } = both.run({ line: null, priority: 0, delayMs, key });
      await store.runs.accept([{ run, payload: samplePayload(), owner: null, isParked }]);
    };
    for (const key of ["x", "y"]) await accept(key, null, true);
    await accept("x", 3_600_000, false);
    await accept("y", null, false);
    await accept("z", 3_600_000, false);
    const look = { appNumber: both.appNumber, now: NOW, after: "", limit: 5 };
    expect(await store.keyLines.stuck({ ...look, queue })).toEqual({ keys: ["x"], next: null });
    const unlimited = await store.keyLines.stuck({ ...look, queue: undefined });
    expect(unlimited).toEqual({ keys: ["x", "y"], next: null });
  });

  verifies(
    ["queue.fair", "queue.weights", "queue.position"],
    "random histories claim what a plain queue does, and every position is the run's turn",
    async () => {
      const weights = fc.record({ a: fc.constantFrom(1, 3), b: fc.constantFrom(1, 2) });
      await fc.assert(
        fc.asyncProperty(history, weights, async (steps, of) => {
          const both = new Both(of);
          for (const step of steps) await both.apply(step, 9);
        }),
        { numRuns: kind === "sqlite" ? 15 : 5 },
      );
    },
  );

  verifies(
    ["queue.concurrency", "queue.key-concurrency", "queue.rate"],
    "random histories with limits claim what a plain queue does, and every run ends",
    async () => {
      await fc.assert(
        fc.asyncProperty(history, limits, async (steps, of) => {
          const both = new Both({}, { ...of, maxBacklog: null });
          for (const step of steps) await both.apply(step, 1);
          // Whatever was left waiting has its turn in the end.
          for (let i = 0; both.model.all("queued").length + both.model.all("running").length > 0; i++) {
            expect(i).toBeLessThan(2_000);
            if ((await both.claim(1)) === 0) await both.wait(300);
            for (const run of both.model.all("running")) await both.end(run, "finish");
          }
        }),
        { numRuns: kind === "sqlite" ? 15 : 5 },
      );
    },
  );
});
