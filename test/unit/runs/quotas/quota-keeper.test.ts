import { expect, test } from "vitest";
import { AppError } from "../../../../src/model/errors.ts";
import type { Quotas } from "../../../../src/model/usage.ts";
import { ProjectQuotas } from "../../../../src/runs/quotas/project-quotas.ts";
import { type Payer, QuotaKeeper } from "../../../../src/runs/quotas/quota-keeper.ts";
import type { QuotaCount } from "../../../../src/store/usage/quota-counts.ts";
import { HandClock } from "../../../support/clocks.ts";
import { verifies } from "../../../verifies.ts";

const NONE: Quotas = { callsPerMinute: null, concurrentRuns: null, gpuSecondsPerDay: null };
const payer = (quotas: Quotas | null, accountId = "sa-1"): Payer => ({
  caller: { accountId, user: null },
  quotas,
});

/** What nodes have told, without a database. */
class Board {
  readonly #counts = new Map<string, Map<string, QuotaCount>>();

  async exchange({ node, counts }: { node: string; counts: readonly QuotaCount[] }): Promise<QuotaCount[]> {
    for (const count of counts) {
      const ofSubject = this.#counts.get(count.subject) ?? new Map<string, QuotaCount>();
      this.#counts.set(count.subject, ofSubject.set(node, count));
    }
    return counts.map(({ subject }) => {
      const others = [...this.#counts.get(subject)!].flatMap(([by, count]) => (by === node ? [] : count));
      return {
        subject,
        calls: others.reduce((sum, { calls }) => sum + calls, 0),
        running: others.reduce((sum, { running }) => sum + running, 0),
      };
    });
  }
}

function keeper({
  ofProject = null as Quotas | null,
  clock = new HandClock(),
  board = new Board(),
  node = "",
} = {}) {
  const state = { running: 0, gpuMs: 0 };
  const made = new QuotaKeeper({
    clock,
    store: { quotaCounts: board, dailyUsage: { gpuMs: async () => state.gpuMs } } as never,
    log: { debug: () => {} } as never,
    executor: { countOf: (_of, most) => Math.min(most, state.running) },
    projects: { isEmpty: ofProject === null, of: () => ofProject },
    nodeId: node === "" ? null : node,
  });
  const admit = (by: Payer | null): AppError | null => {
    try {
      made.admit("p-one", by);
      return null;
    } catch (error) {
      if (error instanceof AppError) return error;
      throw error;
    }
  };
  return { made, admit, state, clock };
}

/** Lets what is on its way arrive. */
async function settled(): Promise<void> {
  for (let i = 0; i < 10; i++) await Promise.resolve();
}

verifies("quota.calls", "an account may make so many calls in any minute", () => {
  const { admit, clock } = keeper();
  const limited = payer({ ...NONE, callsPerMinute: 3 });
  expect([admit(limited), admit(limited), admit(limited)]).toEqual([null, null, null]);
  clock.advance(10_000);
  const refused = admit(limited)!;
  expect(refused.code).toBe("quota_exceeded");
  expect(refused.message).toBe("This token may make 3 calls a minute.");
  const { headers = {} } = refused.detail;
  expect(headers["ratelimit"]).toBe(`"calls";r=0;t=${headers["retry-after"]}`);
  expect(headers["ratelimit-policy"]).toBe('"calls";q=3;w=60');
  clock.advance(Number(headers["retry-after"]) * 1000);
  expect(admit(limited)).toBeNull();
});

verifies("quota.project", "a project's quotas count all its calls, also those without a token", () => {
  const ofProject = { callsPerMinute: 2, concurrentRuns: 9, gpuSecondsPerDay: 7 };
  const { admit, made } = keeper({ ofProject });
  expect(made.applies(null)).toBe(true);
  const own = payer({ ...NONE, callsPerMinute: 2 });
  expect([admit(own), admit(null)]).toEqual([null, null]);
  const refused = admit(own)!;
  expect(refused.message).toBe("The project may make 2 calls a minute.");
  expect(refused.detail.headers?.["ratelimit-policy"]).toBe(
    '"project-calls";q=2;w=60, "project-concurrent-runs";q=9;qu="concurrent-requests", ' +
      '"project-gpu-seconds";q=7;qu="gpu-seconds";w=86400',
  );
  // What the project refused is no call of the account.
  const { admit: again } = keeper();
  expect([again(own), again(own), again(own)?.code]).toEqual([null, null, "quota_exceeded"]);
});

verifies("quota.concurrent", "an account may have so many runs in progress", () => {
  const { admit, state } = keeper();
  const limited = payer({ ...NONE, concurrentRuns: 2 });
  state.running = 1;
  expect(admit(limited)).toBeNull();
  state.running = 2;
  const refused = admit(limited)!;
  expect(refused.message).toBe("This token may have 2 runs in progress at a time; wait for some to end.");
  expect(refused.detail.headers).toMatchObject({
    "retry-after": "1",
    ratelimit: '"concurrent-runs";r=0;t=1',
  });
  state.running = 1;
  expect(admit(limited)).toBeNull();
});

verifies("quota.gpu", "an account may use so many GPU seconds on a day", async () => {
  const { admit, state, clock } = keeper({ clock: new HandClock(Date.UTC(2026, 0, 15, 23, 59, 30)) });
  const limited = payer({ ...NONE, gpuSecondsPerDay: 10 });
  state.gpuMs = 9_999;
  expect(admit(limited)).toBeNull();
  await settled();
  expect(admit(limited)).toBeNull();
  state.gpuMs = 10_000;
  for (let seconds = 0; seconds < 4; seconds++) {
    clock.advance(1_000);
    await settled();
  }
  const refused = admit(limited)!;
  expect(refused.message).toBe("This token may use 10 GPU seconds a day, in UTC.");
  expect(refused.detail.headers?.["retry-after"]).toBe("26");
  clock.advance(26_000);
  expect(admit(limited)).toBeNull();
});

verifies("quota.free", "a token without quotas is not even looked at", async () => {
  const { made } = keeper();
  expect([made.applies(null), made.applies(payer(null)), made.applies(payer(NONE))]).toEqual([
    false,
    false,
    true,
  ]);
  const stored = new Map<string, string>([["p-one", JSON.stringify({ ...NONE, concurrentRuns: 5 })]]);
  const quotas = async (ids: readonly string[] | null) =>
    [...stored].filter(([id]) => ids?.includes(id) ?? true).map(([id, text]) => ({ id, quotas: text }));
  const projects = new ProjectQuotas({ projects: { quotas } } as never);
  await projects.start();
  expect([projects.isEmpty, projects.of("p-one")]).toEqual([false, { ...NONE, concurrentRuns: 5 }]);
  stored.clear();
  await projects.learn("p-one");
  expect([projects.isEmpty, projects.of("p-one")]).toEqual([true, null]);
});

test("what is not used any more is forgotten, and no timer is left", async () => {
  const { admit, clock, made } = keeper();
  admit(payer({ ...NONE, callsPerMinute: 3 }));
  expect(clock.pending).toBe(1);
  clock.advance(70_000);
  expect(clock.pending).toBe(0);
  await made.stop();
});

verifies("quota.nodes", "three nodes together admit little more than the limit", async () => {
  const clock = new HandClock();
  const board = new Board();
  const nodes = ["a", "b", "c"].map((node) => keeper({ clock, board, node }));
  for (const limit of [60, 600, 6_000]) {
    const limited = payer({ ...NONE, callsPerMinute: limit }, `sa-${limit}`);
    let admitted = 0;
    // For half a minute, every node is asked for three times the limit in a minute. An exchange takes one step.
    const stepMs = 10;
    const perStep = (3 * limit * stepMs) / 60_000;
    let owed = 0;
    for (let at = 0; at < 30_000; at += stepMs) {
      owed += perStep;
      for (; owed >= 1; owed -= 1) for (const { admit } of nodes) admitted += admit(limited) === null ? 1 : 0;
      clock.advance(stepMs);
      await settled();
    }
    expect(admitted).toBeGreaterThanOrEqual(limit);
    expect(admitted).toBeLessThanOrEqual(Math.ceil(limit * 1.06) + 2);
  }
});
