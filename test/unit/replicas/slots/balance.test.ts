import * as fc from "fast-check";
import { expect, test } from "vitest";
import { LOAD_BALANCING } from "../../../../src/model/app-config.ts";
import { Balancer } from "../../../../src/replicas/slots/balance.ts";

type Busy = { readonly name: number; readonly busy: number };

/** Replicas by how many slots of each are in use. */
function replicas(...sizes: number[]): Busy[] {
  return sizes.map((busy, name) => ({ name, busy }));
}

test("min-connections takes the least busy, and of equals the oldest", () => {
  const balancer = new Balancer("min-connections");
  expect(balancer.choose(replicas(2, 1, 1), 4)?.name).toBe(1);
  expect(balancer.choose(replicas(0, 0), 4)?.name).toBe(0);
});

test("first-available fills the oldest before it touches the next", () => {
  const balancer = new Balancer("first-available");
  expect(balancer.choose(replicas(3, 0), 4)?.name).toBe(0);
  expect(balancer.choose(replicas(4, 1), 4)?.name).toBe(1);
});

test("round-robin goes around, and past those that are full", () => {
  const balancer = new Balancer("round-robin");
  const turns = [0, 0, 0, 0].map(() => balancer.choose(replicas(0, 0, 0), 1)?.name);
  expect(turns).toEqual([0, 1, 2, 0]);
  expect(balancer.choose(replicas(0, 1, 0), 1)?.name).toBe(2);
  expect(balancer.choose(replicas(0, 1, 0), 1)?.name).toBe(0);
});

test("round-robin goes on when replicas have gone", () => {
  const balancer = new Balancer("round-robin");
  for (let turn = 0; turn < 5; turn++) balancer.choose(replicas(0, 0, 0, 0, 0, 0), 1);
  expect(balancer.choose(replicas(0, 0), 1)).not.toBeNull();
});

test("random-choice-2 takes the less busy of two drawn", () => {
  const draws = [0, 0.99];
  const balancer = new Balancer("random-choice-2", () => draws.shift() ?? 0);
  expect(balancer.choose(replicas(3, 0, 1), 4)?.name).toBe(2);
});

test("random-choice-2 finds the one free replica though neither draw meets it", () => {
  const balancer = new Balancer("random-choice-2", () => 0);
  expect(balancer.choose(replicas(1, 1, 0), 1)?.name).toBe(2);
});

test("every algorithm finds a free slot exactly when there is one", () => {
  const loads = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 8 });
  fc.assert(
    fc.property(
      fc.constantFrom(...LOAD_BALANCING),
      fc.array(loads, { maxLength: 6 }),
      (algorithm, rounds) => {
        const balancer = new Balancer(algorithm);
        for (const sizes of rounds) {
          const chosen = balancer.choose(replicas(...sizes), 3);
          const hasFree = sizes.some((size) => size < 3);
          expect(chosen === null ? null : chosen.busy < 3).toBe(hasFree || null);
        }
      },
    ),
  );
});
