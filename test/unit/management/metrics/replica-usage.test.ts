import { expect } from "vitest";
import { ReplicaUsage } from "../../../../src/management/metrics/replica-usage.ts";
import { HandClock } from "../../../support/clocks.ts";
import { verifies } from "../../../verifies.ts";

type Replica = Parameters<ReplicaUsage["of"]>[0] extends Iterable<infer Each> ? Each : never;
type Usage = { readonly cpuMs: number; readonly residentBytes: number };

/** A replica that uses what the test says; without an answer, it is never told. */
function replica(startedAt: number, answer: () => Promise<Usage | null>): Replica {
  return { startedAt, usage: answer } as unknown as Replica;
}

verifies(
  "metrics.hosted",
  "processors in use are those since the look before, at first since the start",
  async () => {
    const clock = new HandClock();
    const usage = new ReplicaUsage(clock);
    let used: Usage = { cpuMs: 500, residentBytes: 1e6 };
    const one = replica(clock.now() - 1_000, () => Promise.resolve(used));
    const other = replica(clock.now() - 1_000, () => Promise.resolve(null));
    await usage.look([[one, other], []]);
    expect(usage.of([one, other])).toEqual({ cores: 0.5, bytes: 1e6 });
    clock.advance(10_000);
    used = { cpuMs: 20_500, residentBytes: 3e6 };
    await usage.look([[one]]);
    expect(usage.of([one])).toEqual({ cores: 2, bytes: 3e6 });
    // A second scraper soon after the first gets the same.
    clock.advance(10);
    used = { cpuMs: 20_501, residentBytes: 4e6 };
    await usage.look([[one]]);
    expect(usage.of([one])).toEqual({ cores: 2, bytes: 3e6 });
  },
);

verifies(
  "metrics.hosted",
  "a replica that does not answer delays a scrape by a second, once asked",
  async () => {
    const clock = new HandClock();
    const usage = new ReplicaUsage(clock);
    const told = Promise.withResolvers<Usage | null>();
    let asked = 0;
    const hung = replica(clock.now() - 1_000, () => {
      asked += 1;
      return told.promise;
    });
    const fine = replica(clock.now() - 1_000, () => Promise.resolve({ cpuMs: 1_000, residentBytes: 7 }));
    const looking = usage.look([[hung], [fine]]);
    clock.advance(1_000);
    await looking;
    expect(usage.of([hung, fine]).bytes).toBe(7);
    const again = usage.look([[hung], [fine]]);
    clock.advance(1_000);
    await again;
    expect(asked).toBe(1);
    told.resolve({ cpuMs: 0, residentBytes: 5 });
    await usage.look([[fine]]);
    expect(usage.of([hung, fine]).bytes).toBe(12);
  },
);
