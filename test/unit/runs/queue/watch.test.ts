import { setImmediate } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { readAppConfig } from "../../../../src/config/app-config.ts";
import { createLog } from "../../../../src/kit/log.ts";
import type { QueuePlace } from "../../../../src/model/run.ts";
import type { RunTarget } from "../../../../src/replicas/pool.ts";
import { QueueOutlook } from "../../../../src/runs/queue/outlook.ts";
import { QueuePaces } from "../../../../src/runs/queue/paces.ts";
import { QueueWatch } from "../../../../src/runs/queue/watch.ts";
import type { Store } from "../../../../src/store/store.ts";
import { HandClock } from "../../../support/clocks.ts";
import { emptyOutlook } from "../../../support/no-queue.ts";
import { verifies } from "../../../verifies.ts";

/** A queue of stored runs, and what is told of it. */
class PlayedQueue {
  readonly clock = new HandClock();
  /** Ids, the first one first. */
  waiting: string[] = [];
  counts = 0;
  fault: Error | null = null;
  readonly target = {
    config: readAppConfig({ host: { cpuCount: 2 } }).config,
    slots: { outlook: emptyOutlook },
  } as unknown as RunTarget;
  readonly paces = new QueuePaces({
    clock: this.clock,
    target: () => this.target,
    isPaused: () => false,
  });
  readonly watch: QueueWatch;

  constructor() {
    const claims = {
      position: async ({ id }: { id: string }) => {
        this.counts += 1;
        if (this.fault) throw this.fault;
        const index = this.waiting.indexOf(id);
        return index === -1 ? null : index + 1;
      },
    };
    const store = { claims } as unknown as Store;
    const { clock, paces } = this;
    const outlook = new QueueOutlook({ store, clock, paces, target: () => this.target, turnOf: () => ({}) });
    const log = createLog("silent");
    this.watch = new QueueWatch({ clock, steadyClock: clock, log, paces, outlook });
  }

  follow(id: string): { readonly told: (number | null)[]; readonly stop: () => void } {
    const told: (number | null)[] = [];
    const tell = (place: QueuePlace | null): void => void told.push(place && place.position);
    return { told, stop: this.watch.watch({ appNumber: 1, id, live: null }, tell) };
  }

  /** The first runs leave. */
  take(count: number): void {
    this.waiting = this.waiting.slice(count);
    this.paces.noteTaken(1, count, this.waiting.length === 0);
  }

  async second(): Promise<void> {
    this.clock.advance(1_000);
    await passed();
  }
}

async function passed(): Promise<void> {
  for (let turns = 0; turns < 2_500; turns++) await Promise.resolve();
  for (let turns = 0; turns < 5; turns++) await setImmediate();
}

describe("those who watch a queue", () => {
  test("are told a place at once, each change once a second, and the end", async () => {
    const queue = new PlayedQueue();
    queue.waiting = ["a", "b", "c"];
    const { told, stop } = queue.follow("c");
    await passed();
    await queue.second();
    expect(told).toEqual([3]);
    queue.take(1);
    queue.take(1);
    await queue.second();
    expect(told).toEqual([3, 1]);
    queue.take(1);
    await queue.second();
    expect(told).toEqual([3, 1, null]);
    stop();
  });

  verifies("queue.events.crowd", "cost a look of the app each second, not one each", async () => {
    const queue = new PlayedQueue();
    queue.waiting = Array.from({ length: 1_000 }, (_, i) => String(i));
    const followed = queue.waiting.map((id) => queue.follow(id));
    await passed();
    expect(queue.counts).toBe(1_000);
    queue.counts = 0;
    queue.take(10);
    await queue.second();
    expect(queue.counts).toBe(20);
    // Those that were not counted have moved up by what has left.
    expect(followed.slice(20).map(({ told }) => told.at(-1))).toEqual(
      Array.from({ length: 980 }, (_, i) => i + 11),
    );
    for (const { stop } of followed) stop();
    queue.counts = 0;
    await queue.second();
    expect(queue.counts).toBe(0);
  });

  test("are told later what cannot be found out now", async () => {
    const queue = new PlayedQueue();
    queue.waiting = ["a"];
    queue.fault = new Error("the database does not answer");
    const { told, stop } = queue.follow("a");
    await passed();
    expect(told).toEqual([]);
    queue.fault = null;
    await queue.second();
    expect(told).toEqual([1]);
    stop();
  });
});
