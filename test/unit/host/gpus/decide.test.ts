import * as fc from "fast-check";
import { expect, test } from "vitest";
import { decide } from "../../../../src/host/gpus/decide.ts";
import { asSeenBy } from "../../../../src/host/gpus/reasons.ts";
import type { BrokerView, Held } from "../../../../src/host/gpus/room.ts";
import { remembering } from "../../../../src/host/gpus/source.ts";
import type { Gpu } from "../../../../src/model/gpu.ts";
import { GB, madeGpu, matches, wishFor } from "../../../support/gpus/played-gpus.ts";
import { verifies } from "../../../verifies.ts";

const NOW_MS = 100_000;
const HOLD_MS = 10_000;

type Plan = {
  readonly tenant: number;
  readonly gb: number | null;
  readonly idleS: number | null;
  readonly ageS: number;
};

const anyPlan: fc.Arbitrary<Plan> = fc.record({
  tenant: fc.nat(4),
  gb: fc.constantFrom(null, 10, 20, 30, 40, 60),
  idleS: fc.option(fc.nat(50), { freq: 4 }),
  ageS: fc.nat(60),
});

/** GPUs with replicas on them, as many as there is room for, and one wish. */
const anyView = fc
  .record({
    gpus: fc.integer({ min: 1, max: 4 }),
    plans: fc.array(anyPlan, { maxLength: 10 }),
    minimums: fc.array(fc.nat(2), { minLength: 5, maxLength: 5 }),
    gb: fc.constantFrom(null, 10, 30, 50, 80),
    count: fc.integer({ min: 1, max: 3 }),
    spread: fc.array(fc.nat(3), { minLength: 10, maxLength: 10 }),
  })
  .map(({ gpus: size, plans, minimums, gb, count, spread }): BrokerView => {
    const gpus = Array.from({ length: size }, (_, index) => madeGpu(index));
    const held: Held[] = [];
    for (const [id, plan] of plans.entries()) {
      const start = spread[id]! % size;
      const memoryBytes = plan.gb === null ? null : plan.gb * GB;
      const free = [...gpus.slice(start), ...gpus.slice(0, start)].filter((gpu) =>
        hasRoom(gpu, held, memoryBytes),
      );
      const chosen = free.slice(0, 1 + (spread[id]! > 2 ? 1 : 0));
      if (chosen.length === 0) continue;
      held.push({
        id,
        tenant: `t${plan.tenant}`,
        app: `app${plan.tenant}`,
        projectId: "p-one",
        gpus: chosen.map(({ uuid }) => uuid),
        memoryBytes,
        pids: new Set(),
        grantedMs: NOW_MS - plan.ageS * 1_000,
        idleSinceMs: plan.idleS === null ? null : NOW_MS - plan.idleS * 1_000,
        isEnding: false,
      });
    }
    return {
      nowMs: NOW_MS,
      holdMs: HOLD_MS,
      sharesAcrossProjects: false,
      matches,
      gpus,
      readings: new Map(),
      held,
      waiting: [
        {
          id: 99,
          tenant: "t0",
          app: "app0",
          projectId: "p-one",
          wish: wishFor(gb, ["ANY"], count),
          promised: [],
        },
      ],
      minimums: new Map(minimums.map((minimum, index) => [`t${index}`, minimum])),
    };
  });

function hasRoom({ uuid, memoryBytes }: Gpu, held: readonly Held[], bytes: number | null): boolean {
  const there = held.filter(({ gpus }) => gpus.includes(uuid));
  if (bytes === null) return there.length === 0;
  return there.reduce((left, held) => left - (held.memoryBytes ?? memoryBytes), memoryBytes) >= bytes;
}

/** Every set of replicas that may be evicted and without which the wish fits. */
function* solutions({ held, gpus, waiting, minimums }: BrokerView): Generator<Held[]> {
  const { wish, tenant } = waiting[0]!;
  const ofTenant = (key: string, among: readonly Held[]) => among.filter((each) => each.tenant === key);
  const candidates = held.filter((each) => {
    const youngest = Math.max(...ofTenant(each.tenant, held).map(({ grantedMs }) => grantedMs));
    return each.tenant !== tenant && each.idleSinceMs !== null && youngest + HOLD_MS <= NOW_MS;
  });
  for (let bits = 0; bits < 2 ** candidates.length; bits++) {
    const gone = candidates.filter((_, index) => bits & (2 ** index));
    const left = held.filter((each) => !gone.includes(each));
    const isAllowed = gone.every(
      ({ tenant }) => ofTenant(tenant, left).length >= (minimums.get(tenant) ?? 0),
    );
    if (isAllowed && gpus.filter((gpu) => hasRoom(gpu, left, wish.memoryBytes)).length >= wish.count)
      yield gone;
  }
}

verifies("gpu.fewest", "the fewest evictions that are allowed, found by trying all", () => {
  fc.assert(
    fc.property(anyView, (view) => {
      const { grants, evictions } = decide(view);
      const all = [...solutions(view)];
      const fewest = Math.min(...all.map(({ length }) => length));
      if (fewest === 0) expect([grants.length, evictions.length]).toEqual([1, 0]);
      else {
        expect(grants).toEqual([]);
        const chosen = evictions.map(({ id }) => id).toSorted((a, b) => a - b);
        if (all.length === 0) expect(chosen).toEqual([]);
        else expect(all.map((gone) => gone.map(({ id }) => id))).toContainEqual(chosen);
        expect(chosen.length).toBe(all.length === 0 ? 0 : fewest);
        // Of single replicas the longest idle.
        if (fewest === 1) {
          const singles = all.filter(({ length }) => length === 1).map(([one]) => one!);
          const longest = Math.min(...singles.map(({ idleSinceMs }) => idleSinceMs!));
          expect(singles.find(({ id }) => id === chosen[0])?.idleSinceMs).toBe(longest);
        }
      }
    }),
    { numRuns: 500 },
  );
});

test("a name is compared once with each model and size of memory", () => {
  const asked: string[] = [];
  const compare = remembering((name, gpu) => {
    asked.push(`${name} ${gpu.model}`);
    return matches(name, gpu);
  });
  const [whole, half] = [madeGpu(0), madeGpu(1, { memoryBytes: 40 * GB })];
  for (const gpu of [whole, half, whole, half])
    expect([compare("H100", gpu), compare("L4", gpu)]).toEqual([true, false]);
  expect(asked).toEqual(["H100 H100", "L4 H100", "H100 H100", "L4 H100"]);
});

verifies(
  "gpu.evict.idle",
  "people of the app that was evicted are not told of an app of another project",
  () => {
    const own = { app: "chat", projectId: "p-one" };
    expect(asSeenBy(own, { app: "voice", projectId: "p-one" })).toBe("app voice");
    expect(asSeenBy(own, { app: "secret", projectId: "p-two" })).toBe("an app of another project");
  },
);
