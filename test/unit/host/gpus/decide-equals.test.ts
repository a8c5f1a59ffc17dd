import * as fc from "fast-check";
import { expect } from "vitest";
import { decide } from "../../../../src/host/gpus/decide.ts";
import type { BrokerView, Held, Waiting } from "../../../../src/host/gpus/room.ts";
import { decide as decidePlainly } from "../../../support/gpus/plain-decide.ts";
import { GB, madeGpu, matches } from "../../../support/gpus/played-gpus.ts";
import { verifies } from "../../../verifies.ts";

const NOW_MS = 100_000;

const anyTenant = fc.nat(7);
const anyBytes = fc.constantFrom(null, 5 * GB, 10 * GB, 20 * GB, 30 * GB, 60 * GB);
const anyModels = fc.constantFrom(["ANY"], ["H100"], ["T4"], ["T4", "H100"], ["H100", "ANY"], ["L4"]);
const projectOf = (tenant: number): string => `p-${tenant % 3}`;

const anyGpu = fc.record({
  model: fc.constantFrom("H100", "H100", "T4"),
  isFaulty: fc.integer({ min: 0, max: 9 }).map((chance) => chance === 0),
  outsideGb: fc.constantFrom(0, 0, 0, 8, 40),
});

const anyHeld = fc.record({
  tenant: anyTenant,
  memoryBytes: anyBytes,
  gpus: fc.uniqueArray(fc.nat(63), { minLength: 1, maxLength: 3 }),
  ageS: fc.nat(60),
  idleS: fc.option(fc.nat(50), { freq: 4 }),
  isEnding: fc.integer({ min: 0, max: 7 }).map((chance) => chance === 0),
});

const anyWaiting = fc.record({
  tenant: anyTenant,
  models: anyModels,
  count: fc.integer({ min: 1, max: 4 }),
  memoryBytes: anyBytes,
  promised: fc.oneof(
    { weight: 4, arbitrary: fc.constant<number[]>([]) },
    { weight: 1, arbitrary: fc.uniqueArray(fc.nat(63), { minLength: 1, maxLength: 4 }) },
  ),
});

/** Whatever there may be: a driver's numbers and grants need not agree, and shares may be more than a GPU has. */
const anyView = fc
  .record({
    gpus: fc.array(anyGpu, { minLength: 1, maxLength: 12 }),
    held: fc.array(anyHeld, { maxLength: 40 }),
    waiting: fc.array(anyWaiting, { minLength: 1, maxLength: 16 }),
    minimums: fc.array(fc.nat(2), { minLength: 8, maxLength: 8 }),
    sharesAcrossProjects: fc.boolean(),
    holdMs: fc.constantFrom(0, 10_000),
  })
  .map(({ gpus: kinds, held, waiting, minimums, ...rules }): BrokerView => {
    const gpus = kinds.map(({ model, isFaulty }, index) =>
      madeGpu(index, { model, fault: isFaulty ? "lost" : null }),
    );
    const uuids = (places: readonly number[]): string[] => [
      ...new Set(places.map((place) => gpus[place % gpus.length]!.uuid)),
    ];
    const ownerOf = (tenant: number) => {
      return { tenant: `t${tenant}`, app: `app${tenant}`, projectId: projectOf(tenant) };
    };
    return {
      ...rules,
      nowMs: NOW_MS,
      matches,
      gpus,
      readings: new Map(
        kinds.map(({ outsideGb }, index) => {
          const { uuid, memoryBytes } = gpus[index]!;
          const freeBytes = memoryBytes - outsideGb * GB;
          const none = { utilization: null, watts: null, celsius: null, processes: null };
          return [uuid, { uuid, usedBytes: memoryBytes - freeBytes, freeBytes, ...none }];
        }),
      ),
      held: held.map((each, id): Held => ({
        ...ownerOf(each.tenant),
        id,
        gpus: uuids(each.gpus),
        memoryBytes: each.memoryBytes,
        pids: new Set(),
        grantedMs: NOW_MS - each.ageS * 1_000,
        idleSinceMs: each.idleS === null ? null : NOW_MS - each.idleS * 1_000,
        isEnding: each.isEnding,
      })),
      waiting: waiting.map(({ tenant, models, count, memoryBytes, promised }, place): Waiting => ({
        ...ownerOf(tenant),
        id: 1_000 + place,
        wish: { models, count, memoryBytes },
        promised: uuids(promised),
      })),
      minimums: new Map(minimums.map((minimum, tenant) => [`t${tenant}`, minimum])),
    };
  });

const answerOf = ({ grants, evictions, promises, lookAgainMs }: ReturnType<typeof decide>) => {
  return { grants, evictions, promises, lookAgainMs };
};

verifies("gpu.fewest", "the quick way to decide has the answers of the plain one", () => {
  const kinds = new Set<string>();
  fc.assert(
    fc.property(anyView, (view) => {
      const answer = answerOf(decide(view));
      expect(answer).toEqual(answerOf(decidePlainly(view)));
      if (answer.grants.length > 1) kinds.add("grants");
      if (answer.evictions.length > 2) kinds.add("evictions");
      if (answer.promises.length > 1) kinds.add("promises");
      if (answer.lookAgainMs !== null) kinds.add("holds");
    }),
    { numRuns: 2_000 },
  );
  expect([...kinds].toSorted()).toEqual(["evictions", "grants", "holds", "promises"]);
});
